/* SPDX-License-Identifier: BSD-3-Clause */
#include "routing.h"

#include <rte_errno.h>

#include "routes.h"

static struct {
	struct rte_lpm *lpm;
	uint32_t routes;
	int socket;
} table = {.socket = SOCKET_ID_ANY};

static int add_routes(struct node_error *err)
{
	for (uint32_t i = 0; i < table.routes; i++) {
		const int status =
		        rte_lpm_add(table.lpm, route_prefix(i), ROUTE_PREFIX_BITS, i % ROUTING_HOPS);

		if (status < 0)
			return node_fail(err, "dut.routes", "rte_lpm_add of route %u: %s", i,
			                 rte_strerror(-status));
	}
	return 0;
}

struct rte_lpm *routing_table(uint32_t routes, int socket, struct node_error *err)
{
	const struct rte_lpm_config config = {.max_rules = routes, .number_tbl8s = 1};

	if (table.lpm && table.routes == routes && table.socket == socket)
		return table.lpm;
	rte_lpm_free(table.lpm);
	table.routes = routes;
	table.socket = socket;
	table.lpm = rte_lpm_create("pollscope", socket, &config);
	if (!table.lpm) {
		node_fail(err, "dut.workload", "rte_lpm_create: %s", rte_strerror(rte_errno));
	} else if (add_routes(err)) {
		rte_lpm_free(table.lpm);
		table.lpm = NULL;
	}
	return table.lpm;
}
