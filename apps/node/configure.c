/* SPDX-License-Identifier: BSD-3-Clause */
#include "configure.h"

#include "calibrate.h"
#include "clock.h"
#include "cycles.h"
#include "dut.h"
#include "dut_config.h"
#include "fields.h"
#include "gen.h"
#include "gen_feed.h"
#include "gen_target.h"
#include "ports.h"
#include "runner.h"

static void drop_roles(void)
{
	struct node_error ignored; /* taking a role away cannot fail */

	dut_configure(NULL, &ignored);
	gen_configure(NULL, &ignored);
	gen_feed_configure(NULL, &ignored);
	runner_forget();
}

static int set_roles(json_t *request, struct node_error *err)
{
	if (dut_configure(json_object_get(request, "dut"), err) < 0 ||
	    gen_configure(json_object_get(request, "gen"), err) < 0 ||
	    gen_feed_configure(json_object_get(request, "feed"), err) < 0)
		return -1;
	if (gen_lcore() != LCORE_ID_ANY && dut_has_lcore(gen_lcore()))
		return node_fail(err, "gen.lcore", "lcore %u polls for the DUT already", gen_lcore());
	return 0;
}

json_t *configure(json_t *request, struct node_error *err)
{
	static const char *const keys[] = {"cmd", "id", "ports", "dut", "gen", "feed", NULL};
	const uint64_t start = cycles_stamp();

	if (fields_only(request, "", keys, err) || fields_require(request, "", "ports", err))
		return NULL;
	const struct ports_held held = dut_config_held(json_object_get(request, "dut"));

	runner_forget();
	if (ports_configure(json_object_get(request, "ports"), &held, err) < 0 ||
	    set_roles(request, err) < 0) {
		drop_roles();
		return NULL;
	}
	calibrate_stamps();
	json_t *reply = json_pack("{s:I,s:o}", "configured_ns",
	                          (json_int_t)cycles_to_ns(cycles_stamp() - start, clock_tsc_hz()),
	                          "footprint_bytes", ports_footprint());
	uint16_t port;

	if (dut_rx_port(&port) == 0)
		json_object_set_new(reply, "target", gen_target_json(port));
	return reply;
}
