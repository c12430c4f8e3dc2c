/* SPDX-License-Identifier: BSD-3-Clause */
#include "delay_config.h"

#include "clock.h"
#include "fields.h"

#define DELAY_NS_MAX 1e9
#define NS_OF_A_S    1e9

static double cycles_of(double ns)
{
	return ns * (double)clock_tsc_hz() / NS_OF_A_S;
}

#define OF(member)          FIELD_OF(struct delays_config, member)
#define CYCLES(key, member) {key, FIELD_REAL, OF(member), .most = DELAY_CYCLES_MAX, .required = true}
#define SHARE(key, member)  {key, FIELD_REAL, OF(member), .most = 1, .required = true}
#define SEED(member)        {"seed", FIELD_NUMBER, OF(member), .max = INT64_MAX}

static int read_kind(const json_t *object, const char *at, const char *const kinds[], unsigned int *kind,
                     struct node_error *err)
{
	return fields_require(object, at, "kind", err) || fields_choice(object, at, "kind", kinds, kind, err);
}

static int read_service(const json_t *object, struct dut_config *config, struct node_error *err)
{
	static const char at[] = "dut.service";
	static const char *const kinds[] = {"fixed", "exponential", "bimodal", NULL};
	static const enum delay_kind kind_of[] = {DELAY_FIXED, DELAY_EXPONENTIAL, DELAY_BIMODAL};
	static const struct field fields[][6] = {
	        {{.key = "kind"}, SEED(service_seed), CYCLES("cycles", service.cycles)},
	        {{.key = "kind"}, SEED(service_seed), CYCLES("mean_cycles", service.cycles)},
	        {{.key = "kind"},
	         SEED(service_seed),
	         CYCLES("short_cycles", service.cycles),
	         CYCLES("long_cycles", service.long_cycles),
	         SHARE("long_probability", service.long_probability)}};
	unsigned int kind = 0;

	if (!json_is_object(object))
		return node_fail(err, at, "must be null or an object");
	if (read_kind(object, at, kinds, &kind, err))
		return -1;
	config->delays.service.kind = kind_of[kind];
	config->delays.service_seed = 1;
	config->has_service = true;
	return fields_read(object, at, fields[kind], &config->delays, err);
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

static int read_delay(const json_t *delay, struct delays_config *config, struct node_error *err)
{
	static const char at[] = "dut.hiccup.delay";
	static const char *const kinds[] = {"fixed", "exponential", "list", NULL};
	static const enum delay_kind kind_of[] = {DELAY_FIXED, DELAY_EXPONENTIAL, DELAY_LIST};
	static const struct field fields[][3] = {
	        {{.key = "kind"},
	         {"ns", FIELD_REAL, OF(hiccup.cycles), .most = DELAY_NS_MAX, .required = true}},
	        {{.key = "kind"},
	         {"mean_ns", FIELD_REAL, OF(hiccup.cycles), .most = DELAY_NS_MAX, .required = true}},
	        {{.key = "kind"}, {.key = "ns"}}};
	unsigned int kind = 0;

	if (!json_is_object(delay))
		return node_fail(err, at, "must be an object");
	if (read_kind(delay, at, kinds, &kind, err) || fields_read(delay, at, fields[kind], config, err))
		return -1;
	config->hiccup.kind = kind_of[kind];
	config->hiccup.cycles = cycles_of(config->hiccup.cycles);
	return kind_of[kind] == DELAY_LIST ? read_list(delay, at, &config->hiccup, err) : 0;
}

static int read_hiccup(const json_t *object, struct dut_config *config, struct node_error *err)
{
	static const char at[] = "dut.hiccup";
	static const struct field fields[] = {SHARE("probability", hiccup_probability),
	                                      {.key = "delay", .required = true},
	                                      SEED(hiccup_seed),
	                                      {0}};

	if (!json_is_object(object))
		return node_fail(err, at, "must be null or an object");
	config->has_hiccup = true;
	config->delays.hiccup_seed = 1;
	return fields_read(object, at, fields, &config->delays, err) ||
	       read_delay(json_object_get(object, "delay"), &config->delays, err);
}

static int add_extra(struct dut_config *config, struct node_error *err)
{
	if (config->extra_cycles == 0)
		return 0;
	if (config->has_service)
		return node_fail(err, "dut.extra_cycles",
		                 "is the short form of a fixed service (leave it out with `service`)");
	config->delays.service =
	        (struct delay_distribution){.kind = DELAY_FIXED, .cycles = config->extra_cycles};
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
	return add_extra(config, err);
}
