/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The telemetry commands of the probe (docs/internals/probe-protocol.md), and the constructor that registers them when EAL loads the
 * plug-in. Until a session is started nothing else happens.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "callbacks.h"
#include "dpdk.h"
#include "grace.h"
#include "record.h"
#include "sessions.h"

#define PROTOCOL_VERSION 1
#define PAGE_QUEUES      32 /* that fit in an answer of DPDK, 16 KiB */

#ifndef PROBE_YEAR /* tests build a plug-in for another series */
#define PROBE_YEAR RTE_VER_YEAR
#endif

/*
 * `pollscope probe install` looks for this text in the plug-in: the EAL library of its DPDK, librte_eal.so.23 of 22.11 to 23.07, names the
 * driver folders that take it.
 */
#define EAL_SERIES (PROBE_YEAR + (RTE_VER_MONTH == 11))
#define DIGITS(n)  '0' + (n) / 10 % 10, '0' + (n) % 10
static const char eal_library[] __attribute__((used)) = {
        'l', 'i', 'b', 'r', 't', 'e', '_', 'e', 'a', 'l', '.', 's', 'o', '.', DIGITS(EAL_SERIES), '\0'};

static const struct probe_settings defaults = {.heartbeat_ms = 1500, .sample_us = 1000, .period_us = 50000};

static __attribute__((format(printf, 2, 3))) int refuse(struct rte_tel_data *data, const char *format, ...)
{
	char text[RTE_TEL_MAX_STRING_LEN];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	rte_tel_data_start_dict(data);
	rte_tel_data_add_dict_string(data, "error", text);
	return 0;
}

static int show_info(const char *command, const char *parameters, struct rte_tel_data *data)
{
	struct probe_status status;

	(void)command, (void)parameters;
	probe_status(&status);
	rte_tel_data_start_dict(data);
	probe_add_dict(data, "version", PROTOCOL_VERSION);
	rte_tel_data_add_dict_string(data, "dpdk", rte_version());
	rte_tel_data_add_dict_int(data, "pid", getpid());
	probe_add_dict(data, "tsc_hz", rte_get_tsc_hz());
	probe_add_dict(data, "sessions", status.sessions);
	probe_add_dict(data, "max_sessions", PROBE_SESSIONS);
	probe_add_dict(data, "callbacks", status.callbacks);
	probe_add_dict(data, "windows", status.windows);
	probe_add_dict(data, "skipped_windows", status.skipped_windows);
	probe_add_dict(data, "threads", probe_threads_count());
	probe_add_dict(data, "lost_threads", probe_threads_lost());
	probe_add_dict(data, "sample_us", status.sample_us);
	probe_add_dict(data, "period_us", status.period_us);
	probe_add_dict(data, "rx_callback_cycles", status.rx_callback_cycles);
	probe_add_dict(data, "tx_callback_cycles", status.tx_callback_cycles);
	return 0;
}

/* Read `KEY=VALUE` of the setting, if `text` is one. Returns false if it is none or out of range. */
static bool read_setting(const char *text, struct probe_settings *settings)
{
	const struct {
		const char *key;
		uint32_t *value;
		uint32_t least, most;
	} known[] = {
	        {"heartbeat_ms=", &settings->heartbeat_ms, 100, 60000},
	        {"sample_us=", &settings->sample_us, 100, 60000000},
	        {"period_us=", &settings->period_us, 100, 60000000},
	};

	for (size_t i = 0; i < RTE_DIM(known); i++) {
		const size_t length = strlen(known[i].key);
		char *end;
		unsigned long value;

		if (strncmp(text, known[i].key, length) != 0)
			continue;
		value = strtoul(text + length, &end, 10);
		if (end == text + length || *end != '\0' || value < known[i].least || value > known[i].most)
			return false;
		*known[i].value = (uint32_t)value;
		return true;
	}
	return false;
}

static int start(const char *command, const char *parameters, struct rte_tel_data *data)
{
	struct probe_settings settings = defaults;
	char text[256], *rest = NULL;
	int session;

	(void)command;
	snprintf(text, sizeof(text), "%s", parameters == NULL ? "" : parameters);
	for (const char *word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest))
		if (!read_setting(word, &settings))
			return refuse(data,
			              "start: %s is no setting (heartbeat_ms 100..60000, sample_us and "
			              "period_us 100..60000000)",
			              word);
	if (settings.sample_us > settings.period_us)
		return refuse(data, "start: sample_us %u is longer than period_us %u (shorten it)",
		              settings.sample_us, settings.period_us);
	session = probe_session_start(&settings);
	if (session == -EUSERS)
		return refuse(data, "start: %d sessions are running (stop one)", PROBE_SESSIONS);
	if (session < 0)
		return refuse(data, "start: %s (see the log of the program)", strerror(-session));
	rte_tel_data_start_dict(data);
	rte_tel_data_add_dict_int(data, "session", session);
	probe_add_dict(data, "heartbeat_ms", settings.heartbeat_ms);
	probe_add_dict(data, "sample_us", settings.sample_us);
	probe_add_dict(data, "period_us", settings.period_us);
	return 0;
}

/* Read `count` numbers. Returns false if there are fewer, more, or others. */
static bool read_numbers(const char *text, int numbers[], int count)
{
	for (int i = 0; i < count; i++) {
		char *end;
		const long value = text == NULL ? -1 : strtol(text, &end, 10);

		if (value < 0 || value > INT32_MAX || end == text || *end != (i + 1 < count ? ',' : '\0'))
			return false;
		numbers[i] = (int)value;
		text = end + 1;
	}
	return true;
}

/* Read the numbers of a request, the first of which is its session, and count it as a heartbeat. Returns false after it refused. */
static bool accept_request(const char *command, const char *parameters, const char *form, int numbers[],
                           int count, struct rte_tel_data *data)
{
	if (!read_numbers(parameters, numbers, count)) {
		refuse(data, "%s: wrong parameters (give the numbers %s)", command, form);
		return false;
	}
	if (!probe_session_beat(numbers[0])) {
		refuse(data, "%s: there is no session %d (start one)", command, numbers[0]);
		return false;
	}
	return true;
}

static int answer_session(int session, struct rte_tel_data *data)
{
	rte_tel_data_start_dict(data);
	rte_tel_data_add_dict_int(data, "session", session);
	return 0;
}

static int beat(const char *command, const char *parameters, struct rte_tel_data *data)
{
	int session;

	return accept_request(command, parameters, "SESSION", &session, 1, data)
	               ? answer_session(session, data)
	               : 0;
}

static int stop(const char *command, const char *parameters, struct rte_tel_data *data)
{
	int session;

	if (!accept_request(command, parameters, "SESSION", &session, 1, data))
		return 0;
	probe_session_stop(session);
	return answer_session(session, data);
}

/* Returns -1 if the thread has ended. proc(5): `processor` is field 39; the name in parentheses is field 2. */
static int cpu_of(int tid)
{
	char text[1024];
	const char *field;

	probe_read_task(tid, "stat", text, sizeof(text));
	field = strrchr(text, ')');
	for (int number = 2; field != NULL && number < 39; number++)
		field = strchr(field + 1, ' ');
	return field == NULL ? -1 : atoi(field + 1);
}

static int lcore_of(const struct probe_thread *thread)
{
	for (int lcore = 0; thread->lcore_index >= 0 && lcore < RTE_MAX_LCORE; lcore++)
		if (rte_lcore_index(lcore) == thread->lcore_index)
			return lcore;
	return -1;
}

static void describe_thread(const struct probe_thread *thread, struct rte_tel_data *data)
{
	char name[32], *end;

	probe_read_task(thread->tid, "comm", name, sizeof(name));
	end = strchr(name, '\n');
	if (end != NULL)
		*end = '\0';
	rte_tel_data_add_dict_int(data, "tid", thread->tid);
	rte_tel_data_add_dict_string(data, "name", name);
	rte_tel_data_add_dict_int(data, "lcore", lcore_of(thread));
	rte_tel_data_add_dict_int(data, "cpu", cpu_of(thread->tid));
}

static int list_threads(const char *command, const char *parameters, struct rte_tel_data *data)
{
	int session;

	if (!accept_request(command, parameters, "SESSION", &session, 1, data))
		return 0;
	rte_tel_data_start_dict(data);
	for (uint32_t i = 0; i < probe_threads_count(); i++) {
		struct rte_tel_data *thread = rte_tel_data_alloc();
		char index[16];

		if (thread == NULL)
			return -ENOMEM;
		snprintf(index, sizeof(index), "%u", i);
		rte_tel_data_start_dict(thread);
		describe_thread(&probe_threads[i], thread);
		rte_tel_data_add_dict_container(data, index, thread, 0);
	}
	return 0;
}

/* Add `count` numbers of 64 bits. Returns 0 or -ENOMEM. */
static int add_numbers(struct rte_tel_data *data, const char *key, const void *first, int count)
{
	const uint64_t *numbers = first;
	struct rte_tel_data *array = rte_tel_data_alloc();

	if (array == NULL)
		return -ENOMEM;
	rte_tel_data_start_array(array, PROBE_TEL_UNSIGNED);
	for (int i = 0; i < count; i++)
		probe_add_array(array, __atomic_load_n(&numbers[i], __ATOMIC_RELAXED));
	return rte_tel_data_add_dict_container(data, key, array, 0);
}

static int add_gaps(struct rte_tel_data *data, const struct probe_sums *sums)
{
	static const char *const names[PROBE_CLASSES] = {"empty_empty", "empty_busy", "busy_empty",
	                                                 "busy_busy"};
	int status = 0;

	for (int class = 0; class < PROBE_CLASSES && status == 0; class++) {
		const struct probe_gaps *gaps = &sums->gaps[class];
		char key[32];

		snprintf(key, sizeof(key), "%s_gaps", names[class]);
		status = add_numbers(data, names[class], gaps, PROBE_GAPS_SUMS);
		if (status == 0)
			status = add_numbers(data, key, gaps->histogram, PROBE_GAP_BUCKETS);
	}
	return status;
}

static int show_thread(const char *command, const char *parameters, struct rte_tel_data *data)
{
	int numbers[2], status;

	if (!accept_request(command, parameters, "SESSION,INDEX", numbers, 2, data))
		return 0;
	if ((uint32_t)numbers[1] >= probe_threads_count())
		return refuse(data, "%s: there is no thread %d (see threads)", command, numbers[1]);

	const struct probe_thread *thread = &probe_threads[numbers[1]];
	const struct probe_sums *sums = &thread->sums[PROBE_SINGLE], *doubled = &thread->sums[PROBE_DOUBLED];

	rte_tel_data_start_dict(data);
	describe_thread(thread, data);
	probe_add_dict(data, "most_asked", thread->most_asked);
	probe_add_dict(data, "windows", sums->windows);
	probe_add_dict(data, "finished_windows", sums->finished_windows);
	probe_add_dict(data, "packets", sums->packets);
	probe_add_dict(data, "tx_bursts", sums->tx_bursts);
	probe_add_dict(data, "tx_packets", sums->tx_packets);
	probe_add_dict(data, "iterations", sums->iterations);
	probe_add_dict(data, "iteration_cycles", sums->iteration_cycles);
	probe_add_dict(data, "doubled_windows", doubled->windows);
	status = add_numbers(data, "doubled_empty_empty", &doubled->gaps[PROBE_EMPTY_EMPTY], 3);
	return status == 0 ? add_gaps(data, sums) : status;
}

static int add_queue(struct rte_tel_data *data, const char *key, const struct probe_queue *queue)
{
	struct rte_tel_data *array = rte_tel_data_alloc();

	if (array == NULL)
		return -ENOMEM;
	rte_tel_data_start_array(array, PROBE_TEL_UNSIGNED);
	probe_add_array(array, queue->thread);
	probe_add_array(array, queue->moves);
	probe_add_array(array, queue->polls);
	probe_add_array(array, queue->full);
	probe_add_array(array, queue->packets);
	for (int i = 0; i < PROBE_BURST_SIZES; i++)
		probe_add_array(array, queue->sizes[i]);
	return rte_tel_data_add_dict_container(data, key, array, 0);
}

static int list_queues(const char *command, const char *parameters, struct rte_tel_data *data)
{
	const struct probe_queue *queue;
	int numbers[3], status = 0;
	enum probe_direction direction;
	uint16_t port, id;

	if (!accept_request(command, parameters, "SESSION,FIRST,COUNT", numbers, 3, data))
		return 0;
	if (numbers[2] < 1 || numbers[2] > PAGE_QUEUES)
		return refuse(data, "%s: %d queues do not fit in an answer (ask for 1 to %d)", command,
		              numbers[2], PAGE_QUEUES);
	const uint32_t first = (uint32_t)numbers[1], end = first + (uint32_t)numbers[2];

	rte_tel_data_start_dict(data);
	for (uint32_t i = first; i < end && status == 0; i++) {
		char key[32];

		queue = probe_queue_at(i, &port, &direction, &id);
		if (queue == NULL)
			return 0;
		snprintf(key, sizeof(key), "%s_%u_%u", direction == PROBE_TX ? "tx" : "rx", port, id);
		status = add_queue(data, key, queue);
	}
	if (status == 0 && probe_queue_at(end, &port, &direction, &id) != NULL)
		probe_add_dict(data, "next", end);
	return status;
}

/* Return why the probe does not fit this program; NULL if it fits. */
static const char *wrong_program(void)
{
	if (rte_version == NULL || rte_version_year == NULL || rte_telemetry_register_cmd == NULL)
		return "a program without DPDK's shared libraries";
	if (rte_eth_add_rx_callback == NULL)
		return "a program without librte_ethdev";
	if (rte_version_year() != PROBE_YEAR || rte_version_month() != RTE_VER_MONTH)
		return rte_version();
	return NULL;
}

static __attribute__((constructor)) void register_commands(void)
{
	static const struct {
		const char *name;
		telemetry_cb answer;
		const char *help;
	} commands[] = {
	        {"/pollscope/probe/info", show_info, "Returns the state of the probe. No parameters"},
	        {"/pollscope/probe/start", start,
	         "Starts a session. Parameters: heartbeat_ms=, sample_us=, period_us="},
	        {"/pollscope/probe/beat", beat, "Keeps a session. Parameters: session"},
	        {"/pollscope/probe/stop", stop, "Stops a session. Parameters: session"},
	        {"/pollscope/probe/threads", list_threads,
	         "Returns the polling threads. Parameters: session"},
	        {"/pollscope/probe/thread", show_thread,
	         "Returns sums of a thread. Parameters: session, index"},
	        {"/pollscope/probe/queues", list_queues,
	         "Returns counts of queues. Parameters: session, first, count"},
	};
	const char *wrong = wrong_program();

	if (wrong != NULL) {
		fprintf(stderr,
		        "pollscope probe: built for DPDK %d.%02d, loaded into %s; it stays off (build it "
		        "with the program's DPDK)\n",
		        PROBE_YEAR, RTE_VER_MONTH, wrong);
		return;
	}
	for (size_t i = 0; i < RTE_DIM(commands); i++)
		rte_telemetry_register_cmd(commands[i].name, commands[i].answer, commands[i].help);
}
