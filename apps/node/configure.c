/* SPDX-License-Identifier: BSD-3-Clause */
#include "configure.h"

#include "clock.h"
#include "cycles.h"
#include "dut/config.h"
#include "dut/dut.h"
#include "dut/notify.h"
#include "dut/rebalancer.h"
#include "fields.h"
#include "gen/config.h"
#include "gen/feed.h"
#include "gen/gen.h"
#include "gen/target.h"
#include "loop/calibrate.h"
#include "ports/ports.h"
#include "runner.h"

#define MOST_IN_RINGS 65536 /* packets between dispatchers and workers */

/* The parts of a request. */
struct configuration {
	struct ports_plan ports;
	bool has_dut;
	struct dut_config dut;
	bool has_gen;
	struct gen_config gen;
	bool has_feed;
	struct gen_feed feed;
};

/* Parse each part alone, against lcores and devices of this process, which do not change. */
static int parse(json_t *request, struct configuration *c, struct node_error *err)
{
	static const struct field fields[] = {FIELDS_OF_REQUEST, {.key = "ports", .required = true},
	                                      {.key = "dut"},    {.key = "gen"},
	                                      {.key = "feed"},   {0}};
	json_t *dut = json_object_get(request, "dut"), *gen = json_object_get(request, "gen"),
	       *feed = json_object_get(request, "feed");

	if (fields_read(request, "", fields, NULL, err))
		return -1;
	c->has_dut = dut != NULL;
	c->has_gen = gen != NULL;
	c->has_feed = feed != NULL;
	return ports_plan_parse(json_object_get(request, "ports"), &c->ports, err) ||
	       (dut && dut_config_parse(dut, &c->dut, err)) || (gen && gen_config_parse(gen, &c->gen, err)) ||
	       (feed && gen_feed_parse(feed, &c->feed, err));
}

/* Check the parts against each other. */
static int resolve(struct configuration *c, struct node_error *err)
{
	if ((c->has_dut && dut_config_resolve(&c->dut, &c->ports, err)) ||
	    (c->has_gen && gen_config_resolve(&c->gen, &c->ports, err)) ||
	    (c->has_feed && ports_plan_find(&c->ports, c->feed.port_name, "feed.port", &c->feed.port, err)))
		return -1;
	for (unsigned int i = 0; c->has_dut && c->has_gen && i < c->gen.lcores_n; i++)
		if (dut_config_has_lcore(&c->dut, c->gen.lcores[i]))
			return node_fail(err, "gen.lcores", "lcore %u already polls for the DUT",
			                 c->gen.lcores[i]);
	return 0;
}

static void drop_roles(void)
{
	struct node_error ignored; /* removing a role cannot fail */

	dut_apply(NULL, &ignored);
	gen_apply(NULL, &ignored);
	gen_feed_apply(NULL, &ignored);
}

/* From here on the earlier configuration is gone. Only memory or a device can fail now: then there are no roles. */
static int apply(const struct configuration *c, struct node_error *err)
{
	struct poller **pollers;

	runner_forget();
	dut_notify_free();     /* a port with doorbells refuses buffer pools */
	dut_rebalancer_free(); /* restores the RETA, which the ports set again if their queues change */
	if (ports_apply(&c->ports, err) || dut_apply(c->has_dut ? &c->dut : NULL, err) ||
	    gen_apply(c->has_gen ? &c->gen : NULL, err) ||
	    gen_feed_apply(c->has_feed ? &c->feed : NULL, err)) {
		drop_roles();
		return -1;
	}
	const unsigned int n = dut_pollers(&pollers);

	calibrate_stamps(pollers, n, gen_spinning_lcore(), ports_rx_descriptors() + MOST_IN_RINGS);
	return 0;
}

json_t *configure(json_t *request, struct node_error *err)
{
	static struct configuration configuration;
	const uint64_t start = cycles_stamp();
	uint16_t port;

	if (parse(request, &configuration, err) || resolve(&configuration, err) || apply(&configuration, err))
		return NULL;
	json_t *reply = json_pack("{s:I,s:o}", "configured_ns",
	                          (json_int_t)cycles_to_ns(cycles_stamp() - start, clock_tsc_hz()),
	                          "footprint_bytes", ports_footprint());

	if (dut_rx_port(&port) == 0)
		json_object_set_new(reply, "target", gen_target_json(port));
	return reply;
}
