/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "crossover.h"

/* Shows a changed configuration to the senders, if the port has carrier. */
static void filter_changed(struct crossover_port *port)
{
	crossover_gate_update(port, port->gate != CROSSOVER_GATE_DOWN);
}

int crossover_republish(struct crossover_port *port)
{
	if (port->wire == NULL)
		return 0;
	CROSSOVER_HOLD_OR_RETURN(port->pair);
	filter_changed(port);
	return 0;
}

static int set_flag(struct crossover_port *port, uint32_t *flag, uint32_t value)
{
	CROSSOVER_HOLD_OR_RETURN(port->pair);
	__atomic_store_n(flag, value, __ATOMIC_RELAXED);
	filter_changed(port);
	return 0;
}

int crossover_promiscuous_enable(struct rte_eth_dev *dev)
{
	return set_flag(crossover_port_of(dev), &crossover_port_of(dev)->promiscuous, 1);
}

int crossover_promiscuous_disable(struct rte_eth_dev *dev)
{
	return set_flag(crossover_port_of(dev), &crossover_port_of(dev)->promiscuous, 0);
}

int crossover_allmulticast_enable(struct rte_eth_dev *dev)
{
	return set_flag(crossover_port_of(dev), &crossover_port_of(dev)->allmulticast, 1);
}

int crossover_allmulticast_disable(struct rte_eth_dev *dev)
{
	return set_flag(crossover_port_of(dev), &crossover_port_of(dev)->allmulticast, 0);
}

int crossover_mac_add(struct rte_eth_dev *dev, struct rte_ether_addr *mac, uint32_t index,
                      uint32_t pool __rte_unused)
{
	__atomic_store_n(&crossover_port_of(dev)->unicast[index], crossover_mac_number(mac),
	                 __ATOMIC_RELAXED);
	return 0;
}

void crossover_mac_remove(struct rte_eth_dev *dev, uint32_t index)
{
	__atomic_store_n(&crossover_port_of(dev)->unicast[index], 0, __ATOMIC_RELAXED);
}

int crossover_mac_set(struct rte_eth_dev *dev, struct rte_ether_addr *mac)
{
	crossover_mac_add(dev, mac, 0, 0);
	return crossover_republish(crossover_port_of(dev));
}

int crossover_multicast_set(struct rte_eth_dev *dev, struct rte_ether_addr *macs, uint32_t count)
{
	struct crossover_port *port = crossover_port_of(dev);

	if (count > CROSSOVER_MAX_MULTICAST)
		return CROSSOVER_REFUSE(-ENOSPC, "port %u: %u multicast addresses; allowed: up to %u",
		                        port->port_id, count, CROSSOVER_MAX_MULTICAST);
	for (uint32_t i = 0; i < CROSSOVER_MAX_MULTICAST; i++)
		__atomic_store_n(&port->multicast[i], i < count ? crossover_mac_number(&macs[i]) : 0,
		                 __ATOMIC_RELAXED);
	return 0;
}

static bool group_selects(const struct rte_eth_rss_reta_entry64 *groups, uint16_t entry)
{
	return groups[entry / RTE_ETH_RETA_GROUP_SIZE].mask >> (entry % RTE_ETH_RETA_GROUP_SIZE) & 1;
}

static int check_reta_size(const struct crossover_port *port, uint16_t size)
{
	if (size == port->reta_mask + 1)
		return 0;
	return CROSSOVER_REFUSE(-EINVAL, "port %u: RETA of %u entries; it has %u", port->port_id, size,
	                        port->reta_mask + 1);
}

static int check_reta(const struct crossover_port *port, const struct rte_eth_rss_reta_entry64 *groups,
                      uint16_t size)
{
	for (uint16_t i = 0; i < size; i++) {
		uint16_t queue = groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];

		if (group_selects(groups, i) && queue >= port->nb_rx_queues)
			return CROSSOVER_REFUSE(
			        -EINVAL, "port %u: RETA entry %u names queue %u; the port has %u RX queues",
			        port->port_id, i, queue, port->nb_rx_queues);
	}
	return 0;
}

int crossover_reta_update(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *groups, uint16_t size)
{
	struct crossover_port *port = crossover_port_of(dev);
	int ret;

	if (check_reta_size(port, size) != 0 || check_reta(port, groups, size) != 0)
		return -EINVAL;
	CROSSOVER_HOLD_OR_RETURN(port->pair);
	ret = crossover_unassign(port);
	for (uint16_t i = 0; ret == 0 && i < size; i++)
		if (group_selects(groups, i))
			__atomic_store_n(
			        &port->reta[i],
			        groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE],
			        __ATOMIC_RELAXED);
	if (ret == 0 && port->wire != NULL)
		filter_changed(port);
	return ret;
}

int crossover_reta_query(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *groups, uint16_t size)
{
	const struct crossover_port *port = crossover_port_of(dev);

	if (check_reta_size(port, size) != 0)
		return -EINVAL;
	for (uint16_t i = 0; i < size; i++)
		if (group_selects(groups, i))
			groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] = port->reta[i];
	return 0;
}

static int check_rss(const struct crossover_port *port, const struct rte_eth_rss_conf *conf)
{
	if (conf->rss_key != NULL && conf->rss_key_len != 0 && conf->rss_key_len != CROSSOVER_RSS_KEY_BYTES)
		return CROSSOVER_REFUSE(-EINVAL, "port %u: RSS key of %u bytes; it must have %u",
		                        port->port_id, conf->rss_key_len, CROSSOVER_RSS_KEY_BYTES);
	if (conf->rss_hf & ~crossover_rss_types())
		return CROSSOVER_REFUSE(-EINVAL,
		                        "port %u: RSS flow types %#" PRIx64 " include others than %#" PRIx64,
		                        port->port_id, conf->rss_hf, crossover_rss_types());
	return 0;
}

/* Rewrites the hash state that no sender uses, then makes it the active one. The control lock is held. */
static int replace_hash(struct crossover_port *port, const uint8_t *key, uint64_t types)
{
	uint32_t idle = !port->active_hash;
	int ret = crossover_unassign(port);

	if (ret != 0)
		return ret;
	crossover_hash_init(&port->hash[idle], key, types);
	__atomic_store_n(&port->active_hash, idle, __ATOMIC_RELEASE);
	port->rss_on = types != 0;
	filter_changed(port);
	return crossover_quiesce(port);
}

int crossover_rss_update(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf)
{
	struct crossover_port *port = crossover_port_of(dev);
	const uint8_t *key = conf->rss_key;

	if (check_rss(port, conf) != 0)
		return -EINVAL;
	CROSSOVER_HOLD_OR_RETURN(port->pair);
	return replace_hash(port, key != NULL ? key : port->hash[port->active_hash].key, conf->rss_hf);
}

int crossover_rss_get(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf)
{
	const struct crossover_port *port = crossover_port_of(dev);
	const struct crossover_hash *hash = &port->hash[port->active_hash];

	conf->rss_hf = port->rss_on ? hash->types : 0;
	if (conf->rss_key != NULL) {
		if (conf->rss_key_len != 0 && conf->rss_key_len < CROSSOVER_RSS_KEY_BYTES)
			return -EINVAL;
		memcpy(conf->rss_key, hash->key, CROSSOVER_RSS_KEY_BYTES);
	}
	conf->rss_key_len = CROSSOVER_RSS_KEY_BYTES;
	return 0;
}

int crossover_rss_configure(struct crossover_port *port, const struct rte_eth_conf *conf)
{
	const struct rte_eth_rss_conf *rss = &conf->rx_adv_conf.rss_conf;
	bool on = (conf->rxmode.mq_mode & RTE_ETH_MQ_RX_RSS_FLAG) != 0;

	if (on && check_rss(port, rss) != 0)
		return -EINVAL;
	if (crossover_unassign(port) != 0)
		return -EBUSY;
	port->reta_mask =
	        (port->nb_rx_queues > CROSSOVER_RETA_SIZE ? CROSSOVER_RETA_SIZE_MAX : CROSSOVER_RETA_SIZE) -
	        1;
	for (uint16_t i = 0; i < CROSSOVER_RETA_SIZE_MAX; i++)
		port->reta[i] = port->nb_rx_queues == 0 ? 0 : i % port->nb_rx_queues;
	port->report_hash = (conf->rxmode.offloads & RTE_ETH_RX_OFFLOAD_RSS_HASH) != 0;
	return replace_hash(port, on && rss->rss_key != NULL ? rss->rss_key : crossover_default_rss_key,
	                    on ? rss->rss_hf : 0);
}

static bool is_up(const struct crossover_port *port)
{
	return port->started && !port->admin_down;
}

/* The other end of an external wire is an agent, not the other port. */
static bool has_carrier(const struct crossover_port *port)
{
	return is_up(port) && (port->wire != NULL || is_up(port->peer));
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
	bool changed = false;

	for (unsigned int i = 0; i < 2; i++) {
		struct crossover_port *port = &pair->ports[i];
		bool carrier = has_carrier(port);

		changed = changed || (port->gate != CROSSOVER_GATE_DOWN) != carrier;
		crossover_gate_update(port, carrier);
		set_status(port, carrier);
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
	struct crossover_port *port = crossover_port_of(dev);

	return set_status(port, has_carrier(port));
}

static int set_admin_down(struct rte_eth_dev *dev, uint8_t down)
{
	struct crossover_port *port = crossover_port_of(dev);
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
