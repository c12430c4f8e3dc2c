/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for the driver in a node that is built without it (option `crossover`): none of its ports is one of that driver. */
#include <errno.h>

#include "net_crossover.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

int net_crossover_refill_failures(uint16_t port_id, uint16_t queue_id, const uint64_t **counter)
{
	return -ENODEV;
}

int net_crossover_feed_queue_polls(uint16_t port_id, uint16_t queue_id, double probability, uint64_t seed)
{
	return -ENODEV;
}

int net_crossover_rx_corec(uint16_t port_id, bool on)
{
	return -ENODEV;
}

int net_crossover_rx_buffers(uint16_t port_id, enum net_crossover_buffers buffers, uint16_t buffer_pool)
{
	return -ENODEV;
}

int net_crossover_notify(uint16_t port_id, struct qwait_doorbell *bells, uint16_t count)
{
	return -ENODEV;
}

int net_crossover_assign(uint16_t rx_port_id, uint16_t tx_port_id, const uint16_t *senders, uint16_t count)
{
	return -ENODEV;
}

int net_crossover_race_lost(uint16_t port_id, uint16_t queue_id, unsigned int lcore, const uint64_t **counter)
{
	return -ENODEV;
}
