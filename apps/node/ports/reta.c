/* SPDX-License-Identifier: BSD-3-Clause */
#include "reta.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_ethdev.h>

/* Return a table with all entries selected; NULL when out of memory. */
static struct rte_eth_rss_reta_entry64 *whole_table(uint16_t size)
{
	const size_t groups = (size + RTE_ETH_RETA_GROUP_SIZE - 1u) / RTE_ETH_RETA_GROUP_SIZE;
	struct rte_eth_rss_reta_entry64 *table = calloc(groups, sizeof(*table));

	for (uint32_t i = 0; table != NULL && i < size; i++)
		table[i / RTE_ETH_RETA_GROUP_SIZE].mask |= UINT64_C(1) << (i % RTE_ETH_RETA_GROUP_SIZE);
	return table;
}

static uint16_t *queue_of(struct rte_eth_rss_reta_entry64 *table, uint32_t entry)
{
	return &table[entry / RTE_ETH_RETA_GROUP_SIZE].reta[entry % RTE_ETH_RETA_GROUP_SIZE];
}

int port_reta_read(uint16_t port, uint16_t *queues, uint16_t size)
{
	struct rte_eth_rss_reta_entry64 *table = whole_table(size);
	const int status = table == NULL ? -ENOMEM : rte_eth_dev_rss_reta_query(port, table, size);

	for (uint32_t i = 0; status == 0 && i < size; i++)
		queues[i] = *queue_of(table, i);
	free(table);
	return status;
}

int port_reta_write(uint16_t port, const uint16_t *queues, uint16_t size)
{
	struct rte_eth_rss_reta_entry64 *table = whole_table(size);
	int status = -ENOMEM;

	if (table != NULL) {
		for (uint32_t i = 0; i < size; i++)
			*queue_of(table, i) = queues[i];
		status = rte_eth_dev_rss_reta_update(port, table, size);
	}
	free(table);
	return status;
}
