/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"

#include <stdio.h>
#include <string.h>

#include <rte_ethdev.h>

static int parse_port(const json_t *object, const char *at, struct ports_plan *plan, struct node_error *err)
{
	struct port_spec spec;
	char path[48];
	uint16_t port;

	if (port_spec_read(object, at, &port, &spec, err) < 0)
		return -1;
	if (plan->ports[port].wanted)
		return node_fail(err, node_where(path, sizeof(path), at, "name"), "port %s is listed twice",
		                 json_string_value(json_object_get(object, "name")));
	plan->ports[port].wanted = true;
	plan->ports[port].spec = spec;
	snprintf(plan->ports[port].at, sizeof(plan->ports[port].at), "%s", at);
	return 0;
}

int ports_plan_parse(const json_t *list, struct ports_plan *plan, struct node_error *err)
{
	memset(plan, 0, sizeof(*plan));
	plan->held_port = NO_PORT;
	if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > RTE_MAX_ETHPORTS)
		return node_fail(err, "ports", "must be an array of 1 to %u ports", RTE_MAX_ETHPORTS);
	for (size_t i = 0; i < json_array_size(list); i++) {
		char at[32];

		snprintf(at, sizeof(at), "ports[%zu]", i);
		if (parse_port(json_array_get(list, i), at, plan, err) < 0)
			return -1;
	}
	return 0;
}

int ports_plan_find(const struct ports_plan *plan, const char *name, const char *where, uint16_t *port,
                    struct node_error *err)
{
	*port = NO_PORT;
	if (!name)
		return 0;
	if (rte_eth_dev_get_port_by_name(name, port) < 0)
		return node_fail(err, where, "no port has the name %s", name);
	if (!plan->ports[*port].wanted)
		return node_fail(err, where, "port %s is not among the configured ports", name);
	return 0;
}
