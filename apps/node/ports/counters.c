/* SPDX-License-Identifier: BSD-3-Clause */
#include "counters.h"

#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>

struct counters {
	struct rte_eth_xstat_name *xstat_names;
	uint64_t *xstat_zero;
	struct rte_eth_stats zero;
	int xstats;
};

static struct counters counters[RTE_MAX_ETHPORTS];

void port_counters_forget(uint16_t port)
{
	struct counters *p = &counters[port];

	free(p->xstat_names);
	free(p->xstat_zero);
	p->xstat_names = NULL;
	p->xstat_zero = NULL;
	p->xstats = 0;
}

int port_counters_learn(uint16_t port, const char *at, struct node_error *err)
{
	struct counters *p = &counters[port];
	const int n = rte_eth_xstats_get_names(port, NULL, 0);

	port_counters_forget(port);
	if (n <= 0)
		return 0;
	p->xstat_names = calloc((size_t)n, sizeof(*p->xstat_names));
	p->xstat_zero = calloc((size_t)n, sizeof(*p->xstat_zero));
	if (!p->xstat_names || !p->xstat_zero ||
	    rte_eth_xstats_get_names(port, p->xstat_names, (unsigned int)n) != n)
		return node_fail(err, at, "the names of its extended statistics cannot be read");
	p->xstats = n;
	return 0;
}

/* Set values[id] for each of p->xstats; false if the driver does not deliver them. */
static bool read_xstats(uint16_t port, uint64_t values[])
{
	const int n = counters[port].xstats;
	struct rte_eth_xstat *xstats = calloc((size_t)n + 1, sizeof(*xstats));
	const bool whole = xstats && n > 0 && rte_eth_xstats_get(port, xstats, (unsigned int)n) == n;

	for (int i = 0; whole && i < n; i++)
		if (xstats[i].id < (uint64_t)n)
			values[xstats[i].id] = xstats[i].value;
	free(xstats);
	return whole;
}

void port_counters_mark(uint16_t port)
{
	struct counters *p = &counters[port];

	memset(&p->zero, 0, sizeof(p->zero));
	rte_eth_stats_get(port, &p->zero);
	read_xstats(port, p->xstat_zero);
}

static json_t *stats_json(uint16_t port)
{
	const struct rte_eth_stats *zero = &counters[port].zero;
	struct rte_eth_stats now;
	const int status = rte_eth_stats_get(port, &now);

	if (status < 0)
		return json_pack("{s:s}", "absent", rte_strerror(-status));
#define SINCE(counter) #counter, (json_int_t)(now.counter - zero->counter)
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", SINCE(ipackets), SINCE(opackets), SINCE(ibytes),
	                 SINCE(obytes), SINCE(imissed), SINCE(ierrors), SINCE(oerrors), SINCE(rx_nombuf));
#undef SINCE
}

/* Return the queue of a per-queue packet counter ("rx_q7_packets"), or -1. */
static int queue_of(const char *name)
{
	unsigned int queue;
	int end = 0;

	if (sscanf(name, "rx_q%u_packets%n", &queue, &end) == 1 && end && name[end] == '\0')
		return (int)queue;
	return -1;
}

static json_t *queue_packets(uint16_t port, uint16_t rx_queues, const uint64_t values[])
{
	const struct counters *p = &counters[port];
	json_t *list = json_array();

	for (uint16_t q = 0; q < rx_queues; q++)
		json_array_append_new(list, json_null());
	for (int i = 0; i < p->xstats; i++) {
		const int queue = queue_of(p->xstat_names[i].name);

		if (queue >= 0 && queue < rx_queues)
			json_array_set_new(list, (size_t)queue,
			                   json_integer((json_int_t)(values[i] - p->xstat_zero[i])));
	}
	return list;
}

/* Counters that did not change are omitted: 1024 queues have thousands of them. */
static json_t *xstats_json(uint16_t port, const uint64_t values[])
{
	const struct counters *p = &counters[port];
	json_t *object = json_object();

	for (int i = 0; i < p->xstats; i++)
		if (values[i] != p->xstat_zero[i])
			json_object_set_new(object, p->xstat_names[i].name,
			                    json_integer((json_int_t)(values[i] - p->xstat_zero[i])));
	return object;
}

json_t *port_counters_report(uint16_t port, uint16_t rx_queues)
{
	json_t *object = json_pack("{s:o}", "stats", stats_json(port));
	uint64_t *values = calloc((size_t)counters[port].xstats + 1, sizeof(*values));

	if (values && read_xstats(port, values)) {
		json_object_set_new(object, "xstats", xstats_json(port, values));
		json_object_set_new(object, "rx_queue_packets", queue_packets(port, rx_queues, values));
	}
	free(values);
	return object;
}

uint64_t port_counters_movement(uint16_t port)
{
	struct rte_eth_stats stats;

	return rte_eth_stats_get(port, &stats) == 0 ? stats.ipackets + stats.imissed + stats.opackets : 0;
}
