/* SPDX-License-Identifier: BSD-3-Clause */
#include "delay_config.h"

#include "clock.h"
#include "fields.h"

#define CYCLES_MAX   1e8
#define DELAY_NS_MAX 1e9
#define NS_OF_A_S    1e9

static double cycles_of(double ns)
{
	return ns * (double)clock_tsc_hz() / NS_OF_A_S;
}

static int require_real(const json_t *object, const char *at, const char *key, double max, double *value,
                        struct node_error *err)
{
	return fields_require(object, at, key, err) || fields_real(object, at, key, 0, max, value, err);
}

static int read_seed(const json_t *object, const char *at, uint64_t *seed, struct node_error *err)
{
	*seed = 1;
	return fields_u64(object, at, "seed", 0, INT64_MAX, seed, err);
}

static int read_bimodal(const json_t *object, const char *at, struct delay_distribution *d,
                        struct node_error *err)
{
	return require_real(object, at, "short_cycles", CYCLES_MAX, &d->cycles, err) ||
	       require_real(object, at, "long_cycles", CYCLES_MAX, &d->long_cycles, err) ||
	       require_real(object, at, "long_probability", 1, &d->long_probability, err);
}

static int read_service(const json_t *object, struct dut_config *config, struct node_error *err)
{
	static const char at[] = "dut.service";
	static const char *const kinds[] = {"fixed", "exponential", "bimodal", NULL};
	static const char *const keys[][6] = {
	        {"kind", "seed", "cycles", NULL},
	        {"kind", "seed", "mean_cycles", NULL},
	        {"kind", "seed", "short_cycles", "long_cycles", "long_probability", NULL}};
	static const enum delay_kind kind_of[] = {DELAY_FIXED, DELAY_EXPONENTIAL, DELAY_BIMODAL};
	struct delay_distribution *d = &config->delays.service;
	unsigned int kind = 0;

	if (!json_is_object(object))
		return node_fail(err, at, "must be null or an object");
	if (fields_require(object, at, "kind", err) || fields_choice(object, at, "kind", kinds, &kind, err) ||
	    fields_only(object, at, keys[kind], err) ||
	    read_seed(object, at, &config->delays.service_seed, err))
		return -1;
	d->kind = kind_of[kind];
	config->has_service = true;
	if (d->kind == DELAY_BIMODAL)
		return read_bimodal(object, at, d, err);
	return require_real(object, at, keys[kind][2], CYCLES_MAX, &d->cycles, err);
}

static int read_list(const json_t *delay, const char *at, struct delay_distribution *d,
                     struct node_error *err)
{
	const json_t *list = json_object_get(delay, "ns");
	const size_t n = json_array_size(list);
	char path[64];

	node_where(path, sizeof(path), at, "ns");
	if (!json_is_array(list) || n < 1 || n > DELAY_LIST_MAX)
		return node_fail(err, path, "must be an array of 1..%d times", DELAY_LIST_MAX);
	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_array_get(list, i);
		const double ns = json_number_value(item);

		if (!json_is_number(item) || !(ns >= 0 && ns <= DELAY_NS_MAX))
			return node_fail(err, path, "item %zu must be a number from 0 to %g", i,
			                 DELAY_NS_MAX);
		d->list[i] = cycles_of(ns);
	}
	d->listed = (uint32_t)n;
	return 0;
}

static int read_delay(const json_t *delay, struct delay_distribution *d, struct node_error *err)
{
	static const char at[] = "dut.hiccup.delay";
	static const char *const kinds[] = {"fixed", "exponential", "list", NULL};
	static const char *const keys[][3] = {
	        {"kind", "ns", NULL}, {"kind", "mean_ns", NULL}, {"kind", "ns", NULL}};
	static const enum delay_kind kind_of[] = {DELAY_FIXED, DELAY_EXPONENTIAL, DELAY_LIST};
	unsigned int kind = 0;
	double ns = 0;

	if (!json_is_object(delay))
		return node_fail(err, at, "must be an object");
	if (fields_require(delay, at, "kind", err) || fields_choice(delay, at, "kind", kinds, &kind, err) ||
	    fields_only(delay, at, keys[kind], err))
		return -1;
	d->kind = kind_of[kind];
	if (d->kind == DELAY_LIST)
		return read_list(delay, at, d, err);
	if (require_real(delay, at, keys[kind][1], DELAY_NS_MAX, &ns, err))
		return -1;
	d->cycles = cycles_of(ns);
	return 0;
}

static int read_hiccup(const json_t *object, struct dut_config *config, struct node_error *err)
{
	static const char at[] = "dut.hiccup";
	static const char *const keys[] = {"probability", "delay", "seed", NULL};

	if (!json_is_object(object))
		return node_fail(err, at, "must be null or an object");
	config->has_hiccup = true;
	return fields_only(object, at, keys, err) ||
	       require_real(object, at, "probability", 1, &config->delays.hiccup_probability, err) ||
	       fields_require(object, at, "delay", err) ||
	       read_delay(json_object_get(object, "delay"), &config->delays.hiccup, err) ||
	       read_seed(object, at, &config->delays.hiccup_seed, err);
}

static int read_extra(const json_t *dut, struct dut_config *config, struct node_error *err)
{
	uint64_t cycles = 0;

	if (fields_u64(dut, "dut", "extra_cycles", 0, (uint64_t)CYCLES_MAX, &cycles, err))
		return -1;
	if (cycles == 0)
		return 0;
	if (config->has_service)
		return node_fail(err, "dut.extra_cycles",
		                 "is the short form of a fixed service (leave it out with `service`)");
	config->delays.service = (struct delay_distribution){.kind = DELAY_FIXED, .cycles = (double)cycles};
	config->has_service = true;
	return 0;
}

static bool is_given(const json_t *value)
{
	return value && !json_is_null(value);
}

int delay_config_read(const json_t *dut, struct dut_config *config, struct node_error *err)
{
	const json_t *service = json_object_get(dut, "service"), *hiccup = json_object_get(dut, "hiccup");

	if (is_given(service) && read_service(service, config, err))
		return -1;
	if (is_given(hiccup) && read_hiccup(hiccup, config, err))
		return -1;
	return read_extra(dut, config, err);
}
