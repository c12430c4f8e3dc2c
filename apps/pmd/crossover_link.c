/* SPDX-License-Identifier: BSD-3-Clause */
#include "crossover_classify.h"
#include "crossover_control.h"
#include "crossover_link.h"

static bool has_carrier(const struct crossover_pair *pair)
{
	bool carrier = true;

	for (unsigned int i = 0; i < 2; i++)
		carrier = carrier && pair->ports[i].started && !pair->ports[i].admin_down;
	return carrier;
}

static int set_status(struct crossover_port *port, bool carrier)
{
	struct rte_eth_link link = {
	        .link_speed = carrier ? CROSSOVER_LINK_MBPS : RTE_ETH_SPEED_NUM_NONE,
	        .link_duplex = RTE_ETH_LINK_FULL_DUPLEX,
	        .link_autoneg = RTE_ETH_LINK_FIXED,
	        .link_status = carrier ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN,
	};

	return port->attached ? rte_eth_linkstatus_set(&rte_eth_devices[port->port_id], &link) : 0;
}

bool crossover_link_refresh(struct crossover_pair *pair)
{
	bool carrier = has_carrier(pair);
	bool changed = (pair->ports[0].gate != CROSSOVER_GATE_DOWN) != carrier;

	for (unsigned int i = 0; i < 2; i++) {
		crossover_gate_update(&pair->ports[i], carrier);
		set_status(&pair->ports[i], carrier);
	}
	return changed;
}

void crossover_link_announce(struct crossover_pair *pair)
{
	for (unsigned int i = 0; i < 2; i++) {
		const struct crossover_port *port = &pair->ports[i];
		struct rte_eth_dev *dev = &rte_eth_devices[port->port_id];

		if (port->attached && dev->data->dev_conf.intr_conf.lsc)
			rte_eth_dev_callback_process(dev, RTE_ETH_EVENT_INTR_LSC, NULL);
	}
}

int crossover_link_update(struct rte_eth_dev *dev, int wait __rte_unused)
{
	struct crossover_port *port = dev->data->dev_private;

	return set_status(port, has_carrier(port->pair));
}

static int set_admin_down(struct rte_eth_dev *dev, uint8_t down)
{
	struct crossover_port *port = dev->data->dev_private;
	struct crossover_pair *pair = port->pair;
	int ret = crossover_control_lock(pair);
	bool changed;

	if (ret != 0)
		return ret;
	port->admin_down = down;
	changed = crossover_link_refresh(pair);
	crossover_control_unlock(pair);
	if (changed)
		crossover_link_announce(pair);
	return 0;
}

int crossover_link_up(struct rte_eth_dev *dev)
{
	return set_admin_down(dev, 0);
}

int crossover_link_down(struct rte_eth_dev *dev)
{
	return set_admin_down(dev, 1);
}
