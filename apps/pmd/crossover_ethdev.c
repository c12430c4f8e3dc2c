/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "crossover_classify.h"
#include "crossover_compat.h"
#include "crossover_control.h"
#include "crossover_describe.h"
#include "crossover_ethdev.h"
#include "crossover_filter.h"
#include "crossover_link.h"
#include "crossover_log.h"
#include "crossover_probe.h"
#include "crossover_queue.h"
#include "crossover_rx.h"
#include "crossover_stats.h"
#include "crossover_tx.h"

#define RX_OFFLOADS      (RTE_ETH_RX_OFFLOAD_RSS_HASH | RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_CHECKSUM)
#define TX_OFFLOADS      (RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE)
#define MIN_BUFFER_BYTES 128
#define DEFAULT_BURST    32

static struct crossover_port *port_of(const struct rte_eth_dev *dev)
{
	return dev->data->dev_private;
}

static int infos_get(struct rte_eth_dev *dev, struct rte_eth_dev_info *info)
{
	static const struct rte_eth_desc_lim limits = {
	        .nb_min = CROSSOVER_RING_MIN,
	        .nb_max = CROSSOVER_RING_MAX,
	        .nb_align = CROSSOVER_RING_ALIGN,
	        .nb_seg_max = UINT16_MAX,
	        .nb_mtu_seg_max = UINT16_MAX,
	};

	info->min_mtu = RTE_ETHER_MIN_MTU;
	info->max_mtu = CROSSOVER_MAX_MTU;
	info->max_rx_pktlen = CROSSOVER_MAX_MTU + RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
	info->min_rx_bufsize = MIN_BUFFER_BYTES;
	info->max_rx_queues = RTE_MAX_QUEUES_PER_PORT;
	info->max_tx_queues = RTE_MAX_QUEUES_PER_PORT;
	info->max_mac_addrs = CROSSOVER_MAX_MACS;
	info->rx_offload_capa = RX_OFFLOADS;
	if (port_of(dev)->rx_mode != CROSSOVER_RX_STANDARD)
		info->rx_offload_capa &= ~(uint64_t)RTE_ETH_RX_OFFLOAD_SCATTER;
	info->tx_offload_capa = TX_OFFLOADS;
	info->tx_queue_offload_capa = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	info->dev_capa = RTE_ETH_DEV_CAPA_RUNTIME_RX_QUEUE_SETUP | RTE_ETH_DEV_CAPA_RUNTIME_TX_QUEUE_SETUP;
	info->reta_size = (uint16_t)(port_of(dev)->reta_mask + 1);
	info->hash_key_size = CROSSOVER_RSS_KEY_BYTES;
	info->flow_type_rss_offloads = crossover_rss_types();
	info->rx_desc_lim = limits;
	info->tx_desc_lim = limits;
	info->speed_capa = RTE_ETH_LINK_SPEED_100G;
	info->default_rxportconf.ring_size = info->default_txportconf.ring_size = CROSSOVER_DEFAULT_RING;
	info->default_rxportconf.burst_size = info->default_txportconf.burst_size = DEFAULT_BURST;
	info->default_rxportconf.nb_queues = info->default_txportconf.nb_queues = 1;
	return 0;
}

static int check_modes(const struct crossover_port *port, const struct rte_eth_conf *conf)
{
	uint32_t speeds = conf->link_speeds & ~(uint32_t)RTE_ETH_LINK_SPEED_FIXED;

	if (conf->rxmode.mq_mode & ~RTE_ETH_MQ_RX_RSS_FLAG || conf->txmode.mq_mode != RTE_ETH_MQ_TX_NONE) {
		CROSSOVER_LOG(ERR, "port %u: multi-queue modes other than RSS are not there", port->port_id);
		return -ENOTSUP;
	}
	if (speeds != RTE_ETH_LINK_SPEED_AUTONEG && !(speeds & RTE_ETH_LINK_SPEED_100G)) {
		CROSSOVER_LOG(ERR, "port %u: link speeds %#x leave out 100G, the only one", port->port_id,
		              conf->link_speeds);
		return -EINVAL;
	}
	if (conf->lpbk_mode != 0) {
		CROSSOVER_LOG(ERR, "port %u: no loopback mode; the peer port is at hand", port->port_id);
		return -ENOTSUP;
	}
	return 0;
}

static int configure(struct rte_eth_dev *dev)
{
	struct crossover_port *port = port_of(dev);
	int ret = check_modes(port, &dev->data->dev_conf);

	if (ret == 0)
		ret = crossover_control_lock(port->pair);
	if (ret != 0)
		return ret;
	port->nb_rx_queues = dev->data->nb_rx_queues;
	port->nb_tx_queues = dev->data->nb_tx_queues;
	dev->data->scattered_rx = (dev->data->dev_conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
	port->checks = (uint32_t)(dev->data->dev_conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_CHECKSUM);
	ret = crossover_rss_configure(port, &dev->data->dev_conf);
	crossover_control_unlock(port->pair);
	return ret;
}

static int start(struct rte_eth_dev *dev)
{
	struct crossover_port *port = port_of(dev);
	struct crossover_pair *pair = port->pair;
	bool changed;
	int ret = crossover_control_lock(pair);

	if (ret != 0)
		return ret;
	ret = crossover_check_mtu(dev, dev->data->mtu);
	if (ret == 0)
		ret = crossover_queues_start(dev);
	if (ret == 0) {
		crossover_apply_mtu(port, dev->data->mtu);
		port->started = 1;
	}
	changed = crossover_link_refresh(pair);
	crossover_describe_select(dev);
	crossover_control_unlock(pair);
	if (changed)
		crossover_link_announce(pair);
	return ret;
}

static int stop(struct rte_eth_dev *dev)
{
	struct crossover_port *port = port_of(dev);
	struct crossover_pair *pair = port->pair;
	bool changed;
	int ret = crossover_control_lock(pair);

	if (ret != 0)
		return ret;
	port->started = 0;
	changed = crossover_link_refresh(pair);
	ret = crossover_queues_stop(dev);
	if (ret != 0) { /* the port goes on as it was */
		port->started = 1;
		crossover_link_refresh(pair);
	}
	crossover_control_unlock(pair);
	if (changed && ret == 0)
		crossover_link_announce(pair);
	return ret;
}

int crossover_ethdev_close(struct rte_eth_dev *dev)
{
	struct crossover_port *port = port_of(dev);

	if (rte_eal_process_type() != RTE_PROC_PRIMARY || port == NULL)
		return 0;
	if (port->started)
		stop(dev);
	for (uint16_t i = 0; i < RTE_MAX_QUEUES_PER_PORT; i++) { /* the length of both arrays */
		if (dev->data->rx_queues != NULL)
			crossover_rx_queue_release(dev, i);
		if (dev->data->tx_queues != NULL)
			crossover_tx_queue_release(dev, i);
	}
	/* Both lie in the memory of the pair, which ethdev must not free. */
	dev->data->dev_private = NULL;
	dev->data->mac_addrs = NULL;
	crossover_pair_detach(port);
	return 0;
}

static int set_mtu(struct rte_eth_dev *dev, uint16_t mtu)
{
	int ret = crossover_check_mtu(dev, mtu);

	if (ret == 0)
		crossover_apply_mtu(port_of(dev), mtu);
	return ret;
}

static int burst_mode(const struct rte_eth_dev *dev, struct rte_eth_burst_mode *mode, const char *rx,
                      const char *more)
{
	const struct crossover_options *options = &port_of(dev)->pair->options;

	snprintf(mode->info, sizeof(mode->info), "Scalar, dma=%s, feed=%s%s%s",
	         options->dma == CROSSOVER_DMA_SWAP ? "swap" : "copy",
	         options->feed == CROSSOVER_FEED_INFINITE ? "infinite" : "wire", rx, more);
	return 0;
}

static int rx_burst_mode(struct rte_eth_dev *dev, uint16_t queue_id __rte_unused,
                         struct rte_eth_burst_mode *mode)
{
	bool described = dev->rx_pkt_burst == crossover_rx_burst(port_of(dev), true);
	bool corec = port_of(dev)->rx_mode == CROSSOVER_RX_COREC;

	return burst_mode(dev, mode, corec ? ", rx=corec" : "", described ? ", types and checksums" : "");
}

static int tx_burst_mode(struct rte_eth_dev *dev, uint16_t queue_id __rte_unused,
                         struct rte_eth_burst_mode *mode)
{
	return burst_mode(dev, mode, "", "");
}

static crossover_queue_count rx_queue_count(void *queue)
{
	return (crossover_queue_count)crossover_rx_filled(queue);
}

static const struct eth_dev_ops operations = {
        .dev_configure = configure,
        .dev_start = start,
        .dev_stop = stop,
        .dev_close = crossover_ethdev_close,
        .dev_infos_get = infos_get,
        .dev_set_link_up = crossover_link_up,
        .dev_set_link_down = crossover_link_down,
        .link_update = crossover_link_update,
        .mtu_set = set_mtu,
        .promiscuous_enable = crossover_promiscuous_enable,
        .promiscuous_disable = crossover_promiscuous_disable,
        .allmulticast_enable = crossover_allmulticast_enable,
        .allmulticast_disable = crossover_allmulticast_disable,
        .mac_addr_add = crossover_mac_add,
        .mac_addr_remove = crossover_mac_remove,
        .mac_addr_set = crossover_mac_set,
        .set_mc_addr_list = crossover_multicast_set,
        .reta_update = crossover_reta_update,
        .reta_query = crossover_reta_query,
        .rss_hash_update = crossover_rss_update,
        .rss_hash_conf_get = crossover_rss_get,
        .rx_queue_setup = crossover_rx_queue_setup,
        .rx_queue_release = crossover_rx_queue_release,
        .rx_queue_start = crossover_rx_queue_start,
        .rx_queue_stop = crossover_rx_queue_stop,
        .tx_queue_setup = crossover_tx_queue_setup,
        .tx_queue_release = crossover_tx_queue_release,
        .tx_queue_start = crossover_tx_queue_start,
        .tx_queue_stop = crossover_tx_queue_stop,
        .tx_done_cleanup = crossover_tx_done_cleanup,
        .rxq_info_get = crossover_rxq_info,
        .txq_info_get = crossover_txq_info,
        .rx_burst_mode_get = rx_burst_mode,
        .tx_burst_mode_get = tx_burst_mode,
        .dev_supported_ptypes_get = crossover_ptypes_get,
        .dev_ptypes_set = crossover_ptypes_set,
        .get_monitor_addr = crossover_get_monitor_addr,
        .stats_get = crossover_stats_get,
        .stats_reset = crossover_stats_reset,
        .xstats_get = crossover_xstats_get,
        .xstats_get_names = crossover_xstats_names,
        .xstats_reset = crossover_stats_reset,
};

void crossover_ethdev_select(struct rte_eth_dev *dev)
{
	dev->dev_ops = &operations;
	crossover_describe_select(dev);
	dev->tx_pkt_burst = crossover_tx_burst;
	dev->rx_queue_count = rx_queue_count;
	dev->rx_descriptor_status = crossover_rx_descriptor_status;
	dev->tx_descriptor_status = crossover_tx_descriptor_status;
}
