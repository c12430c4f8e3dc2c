/* SPDX-License-Identifier: BSD-3-Clause */
#include "telemetry.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <rte_common.h>
#include <rte_telemetry.h>
#include <rte_version.h>

#include "dut/dut.h"
#include "runner.h"

#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
#define add_dict_unsigned rte_tel_data_add_dict_uint
#else
#define add_dict_unsigned rte_tel_data_add_dict_u64 /* its name before DPDK 23.03 */
#endif

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void state_lock(void)
{
	pthread_mutex_lock(&mutex);
}

void state_unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

static int list_lcores(const char *command, const char *parameters, struct rte_tel_data *data)
{
	struct poller **pollers;

	RTE_SET_USED(command);
	RTE_SET_USED(parameters);
	rte_tel_data_start_array(data, RTE_TEL_INT_VAL);
	state_lock();
	const unsigned int n = dut_pollers(&pollers);

	for (unsigned int i = 0; i < n; i++)
		rte_tel_data_add_array_int(data, (int)pollers[i]->lcore);
	state_unlock();
	return 0;
}

static void add_value(struct rte_tel_data *data, const char *key, json_t *value)
{
	if (json_is_integer(value))
		add_dict_unsigned(data, key, (uint64_t)json_integer_value(value));
	else if (json_is_string(value))
		rte_tel_data_add_dict_string(data, key, json_string_value(value));
}

static int show_lcore(const char *command, const char *parameters, struct rte_tel_data *data)
{
	struct poller **pollers;
	int status = -ENOENT;
	json_t *value;
	const char *key;
	char *end;

	RTE_SET_USED(command);
	if (!parameters)
		return -EINVAL;
	const unsigned long lcore = strtoul(parameters, &end, 10);

	if (end == parameters || *end)
		return -EINVAL;
	rte_tel_data_start_dict(data);
	state_lock();
	const unsigned int n = dut_pollers(&pollers);

	for (unsigned int i = 0; i < n; i++) {
		if (pollers[i]->lcore != lcore)
			continue;
		json_t *live = dut_live(pollers[i]);

		json_object_foreach(live, key, value) add_value(data, key, value);
		json_decref(live);
		status = 0;
	}
	state_unlock();
	return status;
}

static int show_trial(const char *command, const char *parameters, struct rte_tel_data *data)
{
	RTE_SET_USED(command);
	RTE_SET_USED(parameters);
	rte_tel_data_start_dict(data);
	state_lock();
	rte_tel_data_add_dict_string(data, "trial", runner_trial_name());
	rte_tel_data_add_dict_string(data, "state", runner_state_name());
	state_unlock();
	return 0;
}

int telemetry_open(void)
{
	int status = rte_telemetry_register_cmd("/pollscope/lcores", list_lcores,
	                                        "Polling lcores. No parameters.");

	if (status == 0)
		status = rte_telemetry_register_cmd("/pollscope/lcore", show_lcore,
		                                    "Counters of a polling lcore. Parameter: lcore id.");
	if (status == 0)
		status = rte_telemetry_register_cmd("/pollscope/trial", show_trial,
		                                    "Name and state of the trial. No parameters.");
	return status;
}
