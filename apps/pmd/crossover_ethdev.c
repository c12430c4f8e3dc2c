/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bus_vdev_driver.h>
#include <rte_malloc.h>

#include "crossover.h"
#include "net_crossover.h"

#define RX_OFFLOADS      (RTE_ETH_RX_OFFLOAD_RSS_HASH | RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_CHECKSUM)
#define TX_OFFLOADS      (RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE)
#define MIN_BUFFER_BYTES 128
#define DEFAULT_BURST    32

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
	if (crossover_port_of(dev)->rx_mode != CROSSOVER_RX_STANDARD || crossover_port_of(dev)->wire != NULL)
		info->rx_offload_capa &= ~(uint64_t)RTE_ETH_RX_OFFLOAD_SCATTER;
	info->tx_offload_capa = TX_OFFLOADS;
	info->tx_queue_offload_capa = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	info->dev_capa = RTE_ETH_DEV_CAPA_RUNTIME_RX_QUEUE_SETUP | RTE_ETH_DEV_CAPA_RUNTIME_TX_QUEUE_SETUP;
	info->reta_size = (uint16_t)(crossover_port_of(dev)->reta_mask + 1);
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

	if (conf->rxmode.mq_mode & ~RTE_ETH_MQ_RX_RSS_FLAG || conf->txmode.mq_mode != RTE_ETH_MQ_TX_NONE)
		return CROSSOVER_REFUSE(-ENOTSUP,
		                        "port %u: unsupported multi-queue mode (only RSS is supported)",
		                        port->port_id);
	if (speeds != RTE_ETH_LINK_SPEED_AUTONEG && !(speeds & RTE_ETH_LINK_SPEED_100G))
		return CROSSOVER_REFUSE(-EINVAL, "port %u: link speeds %#x leave out 100G (the only speed)",
		                        port->port_id, conf->link_speeds);
	if (conf->lpbk_mode != 0)
		return CROSSOVER_REFUSE(-ENOTSUP, "port %u: no loopback mode (send to the peer port)",
		                        port->port_id);
	return 0;
}

static int configure(struct rte_eth_dev *dev)
{
	struct crossover_port *port = crossover_port_of(dev);
	int ret = check_modes(port, &dev->data->dev_conf);

	if (ret != 0)
		return ret;
	CROSSOVER_HOLD_OR_RETURN(port->pair);
	port->nb_rx_queues = dev->data->nb_rx_queues;
	port->nb_tx_queues = dev->data->nb_tx_queues;
	dev->data->scattered_rx = (dev->data->dev_conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
	port->checks = (uint32_t)(dev->data->dev_conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_CHECKSUM);
	return crossover_rss_configure(port, &dev->data->dev_conf);
}

static int start(struct rte_eth_dev *dev)
{
	struct crossover_port *port = crossover_port_of(dev);
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
	crossover_receive_select(dev);
	crossover_control_unlock(pair);
	if (changed)
		crossover_link_announce(pair);
	return ret;
}

static int stop(struct rte_eth_dev *dev)
{
	struct crossover_port *port = crossover_port_of(dev);
	struct crossover_pair *pair = port->pair;
	bool changed;
	int ret = crossover_control_lock(pair);

	if (ret != 0)
		return ret;
	port->started = 0;
	changed = crossover_link_refresh(pair);
	ret = crossover_queues_stop(dev);
	if (ret != 0) { /* the port continues as before */
		port->started = 1;
		crossover_link_refresh(pair);
	}
	crossover_control_unlock(pair);
	if (changed && ret == 0)
		crossover_link_announce(pair);
	return ret;
}

/* The pair's memory is freed with its second port. */
static void detach_port(struct crossover_port *port)
{
	struct crossover_pair *pair = port->pair;

	port->attached = 0;
	crossover_external_release(port);
	if (!port->peer->attached) {
		pthread_mutex_destroy(&pair->control);
		rte_free(pair);
	}
}

/* Stops and releases everything of the port; in a secondary process only the process's own view of it. */
static int close_port(struct rte_eth_dev *dev)
{
	struct crossover_port *port = crossover_port_of(dev);

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
	detach_port(port);
	return 0;
}

static int set_mtu(struct rte_eth_dev *dev, uint16_t mtu)
{
	int ret = crossover_check_mtu(dev, mtu);

	if (ret != 0)
		return ret;
	crossover_apply_mtu(crossover_port_of(dev), mtu);
	return crossover_republish(crossover_port_of(dev));
}

static int burst_mode(const struct rte_eth_dev *dev, struct rte_eth_burst_mode *mode, const char *rx,
                      const char *more)
{
	static const char *const feeds[] = {[CROSSOVER_FEED_WIRE] = "wire",
	                                    [CROSSOVER_FEED_INFINITE] = "infinite",
	                                    [CROSSOVER_FEED_EXTERNAL] = "external"};
	const struct crossover_options *options = &crossover_port_of(dev)->pair->options;

	snprintf(mode->info, sizeof(mode->info), "Scalar, dma=%s, feed=%s%s%s",
	         options->dma == CROSSOVER_DMA_SWAP ? "swap" : "copy", feeds[options->feed], rx, more);
	return 0;
}

static int rx_burst_mode(struct rte_eth_dev *dev, uint16_t queue_id __rte_unused,
                         struct rte_eth_burst_mode *mode)
{
	bool described = crossover_receives_described(dev);
	bool corec = crossover_port_of(dev)->rx_mode == CROSSOVER_RX_COREC;

	return burst_mode(dev, mode, corec ? ", rx=corec" : "", described ? ", types and checksums" : "");
}

static int tx_burst_mode(struct rte_eth_dev *dev, uint16_t queue_id __rte_unused,
                         struct rte_eth_burst_mode *mode)
{
	static const char *const programs[] = {
	        [CROSSOVER_PROGRAM_DIRECT] = ", frames not classified",
	        [CROSSOVER_PROGRAM_SORTED] = ", frames sorted by queue",
	        [CROSSOVER_PROGRAM_IN_ORDER] = ", frames in order",
	};
	const struct crossover_port *port = crossover_port_of(dev);
	bool wire = port->pair->options.feed == CROSSOVER_FEED_WIRE;

	return burst_mode(dev, mode, !wire ? "" : programs[crossover_program_of(port->peer)], "");
}

static const struct eth_dev_ops operations = {
        .dev_configure = configure,
        .dev_start = start,
        .dev_stop = stop,
        .dev_close = close_port,
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

/* Primary and secondary processes use the same functions. */
static void select_functions(struct rte_eth_dev *dev)
{
	dev->dev_ops = &operations;
	crossover_receive_select(dev);
	dev->tx_pkt_burst =
	        crossover_port_of(dev)->wire != NULL ? crossover_external_tx_burst : crossover_tx_burst;
	dev->rx_queue_count = crossover_rx_queue_count;
	dev->rx_descriptor_status = crossover_rx_descriptor_status;
	dev->tx_descriptor_status = crossover_tx_descriptor_status;
}

RTE_LOG_REGISTER(crossover_logtype, pmd.net.crossover, NOTICE);

static const char *const suffixes[2] = {"_a", "_b"};

static int port_name(char *name, size_t size, const struct rte_vdev_device *vdev, unsigned int side)
{
	int length = snprintf(name, size, "%s%s", vdev->device.name, suffixes[side]);

	if (length < (int)size)
		return 0;
	return CROSSOVER_REFUSE(-EINVAL, "device name '%s' is too long for a port name", vdev->device.name);
}

static void init_port(struct crossover_pair *pair, unsigned int side)
{
	struct crossover_port *port = &pair->ports[side];

	port->pair = pair;
	port->peer = &pair->ports[!side];
	port->reta_mask = CROSSOVER_RETA_SIZE - 1;
	port->rx_mode = (uint8_t)pair->options.rx;
	crossover_hash_init(&port->hash[0], crossover_default_rss_key, 0);
	port->mac_addrs[0] = pair->options.macs[side];
	if (rte_is_zero_ether_addr(&port->mac_addrs[0]))
		rte_eth_random_addr(port->mac_addrs[0].addr_bytes);
	port->unicast[0] = crossover_mac_number(&port->mac_addrs[0]);
}

static struct crossover_pair *create_pair(const struct rte_vdev_device *vdev,
                                          const struct crossover_options *options)
{
	struct crossover_pair *pair = rte_zmalloc_socket("crossover_pair", sizeof(*pair),
	                                                 CROSSOVER_LINE_BYTES, vdev->device.numa_node);

	if (pair == NULL) {
		CROSSOVER_LOG(ERR, "no %zu bytes of DPDK memory for a pair", sizeof(*pair));
		return NULL;
	}
	pair->options = *options;
	pair->socket_id = vdev->device.numa_node;
	if (crossover_control_init(pair) != 0) {
		rte_free(pair);
		return NULL;
	}
	for (unsigned int side = 0; side < 2; side++)
		init_port(pair, side);
	return pair;
}

static int create_port(struct rte_vdev_device *vdev, struct crossover_port *port, unsigned int side)
{
	char name[RTE_ETH_NAME_MAX_LEN];
	struct rte_eth_dev *dev;
	int ret = port_name(name, sizeof(name), vdev, side);

	if (ret == 0)
		ret = crossover_external_init(port, name);
	if (ret != 0)
		return ret;
	dev = rte_eth_dev_allocate(name);
	if (dev == NULL) {
		crossover_external_release(port);
		return -ENOMEM;
	}
	dev->device = &vdev->device;
	dev->data->dev_private = port;
	dev->data->mac_addrs = port->mac_addrs;
	dev->data->numa_node = vdev->device.numa_node;
	dev->data->dev_flags |= RTE_ETH_DEV_INTR_LSC;
	dev->data->dev_link = (struct rte_eth_link){.link_duplex = RTE_ETH_LINK_FULL_DUPLEX};
	port->port_id = dev->data->port_id;
	port->attached = 1;
	crossover_quiesce_register(port);
	select_functions(dev);
	return 0;
}

static struct rte_eth_dev *find_port(const struct rte_vdev_device *vdev, unsigned int side)
{
	char name[RTE_ETH_NAME_MAX_LEN];

	return port_name(name, sizeof(name), vdev, side) == 0 ? rte_eth_dev_allocated(name) : NULL;
}

static int remove_ports(struct rte_vdev_device *vdev)
{
	for (unsigned int side = 0; side < 2; side++) {
		struct rte_eth_dev *dev = find_port(vdev, side);

		if (dev != NULL) {
			close_port(dev);
			rte_eth_dev_release_port(dev);
		}
	}
	return 0;
}

/* A port with an owner is none of those that programs iterate over and count; a process that knows its name can use it. */
static int keep_port(const struct crossover_port *port)
{
	struct rte_eth_dev_owner owner = {.name = NET_CROSSOVER_DRIVER_NAME};
	int ret = rte_eth_dev_owner_new(&owner.id);

	return ret != 0 ? ret : rte_eth_dev_owner_set(port->port_id, &owner);
}

static int probe_primary(struct rte_vdev_device *vdev)
{
	struct crossover_options options;
	struct crossover_pair *pair;
	int ret = crossover_devargs_parse(rte_vdev_device_args(vdev), &options);

	if (ret != 0)
		return ret;
	if (vdev->device.numa_node == SOCKET_ID_ANY)
		vdev->device.numa_node = (int)rte_socket_id();
	pair = create_pair(vdev, &options);
	if (pair == NULL)
		return -ENOMEM;
	ret = create_port(vdev, &pair->ports[0], 0);
	if (ret != 0) {
		rte_free(pair);
		return ret;
	}
	ret = create_port(vdev, &pair->ports[1], 1);
	if (ret == 0 && options.keeps_b)
		ret = keep_port(&pair->ports[1]);
	if (ret != 0) {
		remove_ports(vdev);
		return ret;
	}
	for (unsigned int side = 0; side < 2; side++)
		rte_eth_dev_probing_finish(find_port(vdev, side));
	return 0;
}

static int attach_port(struct rte_vdev_device *vdev, unsigned int side)
{
	char name[RTE_ETH_NAME_MAX_LEN];
	struct rte_eth_dev *dev;

	if (port_name(name, sizeof(name), vdev, side) != 0)
		return -EINVAL;
	dev = rte_eth_dev_attach_secondary(name);
	if (dev == NULL)
		return CROSSOVER_REFUSE(-ENODEV, "the primary process has no port '%s'", name);
	dev->device = &vdev->device;
	crossover_quiesce_register(dev->data->dev_private);
	select_functions(dev);
	rte_eth_dev_probing_finish(dev);
	return 0;
}

static int probe(struct rte_vdev_device *vdev)
{
	int ret = 0;

	if (rte_eal_process_type() == RTE_PROC_PRIMARY)
		return probe_primary(vdev);
	for (unsigned int side = 0; side < 2 && ret == 0; side++)
		ret = attach_port(vdev, side);
	return ret;
}

static struct rte_vdev_driver net_crossover_driver = {
        .probe = probe,
        .remove = remove_ports,
};

RTE_PMD_REGISTER_VDEV(net_crossover, net_crossover_driver);
RTE_PMD_REGISTER_PARAM_STRING(net_crossover, CROSSOVER_DEVARGS_HELP);

/* Returns NULL if the port does not belong to this driver. Without data of its own it was closed by another process. */
static struct crossover_port *find_port_by_id(uint16_t port_id)
{
	const struct rte_eth_dev *dev;

	if (!rte_eth_dev_is_valid_port(port_id))
		return NULL;
	dev = &rte_eth_devices[port_id];
	if (dev->rx_pkt_burst == NULL || crossover_port_of(dev) == NULL ||
	    strcmp(dev->device->driver->name, NET_CROSSOVER_DRIVER_NAME) != 0)
		return NULL;
	return crossover_port_of(dev);
}

static int find_rx_queue(uint16_t port_id, uint16_t queue_id, struct crossover_rx_queue **rxq)
{
	const struct rte_eth_dev_data *data;

	if (find_port_by_id(port_id) == NULL)
		return -ENODEV;
	data = rte_eth_devices[port_id].data;
	*rxq = queue_id < data->nb_rx_queues ? data->rx_queues[queue_id] : NULL;
	return *rxq == NULL ? -EINVAL : 0;
}

int net_crossover_refill_failures(uint16_t port_id, uint16_t queue_id, const uint64_t **counter)
{
	struct crossover_rx_queue *rxq;
	int ret = find_rx_queue(port_id, queue_id, &rxq);

	if (ret == 0)
		*counter = &rxq->refill_failures;
	return ret;
}

int net_crossover_feed_queue_polls(uint16_t port_id, uint16_t queue_id, double probability, uint64_t seed)
{
	struct crossover_rx_queue *rxq;
	int ret = find_rx_queue(port_id, queue_id, &rxq);

	if (ret != 0)
		return ret;
	if (!rxq->infinite)
		return -ENOTSUP;
	CROSSOVER_HOLD_OR_RETURN(rxq->port->pair);
	return crossover_feed_set_queue_polls(rxq, probability, seed);
}

int net_crossover_rx_corec(uint16_t port_id, bool on)
{
	struct crossover_port *port = find_port_by_id(port_id);

	if (port == NULL)
		return -ENODEV;
	if (on && port->pair->options.feed == CROSSOVER_FEED_INFINITE)
		return -ENOTSUP;
	CROSSOVER_HOLD_OR_RETURN(port->pair);
	if (port->started)
		return -EBUSY;
	port->rx_mode = on ? CROSSOVER_RX_COREC : CROSSOVER_RX_STANDARD;
	crossover_receive_select(&rte_eth_devices[port_id]);
	return 0;
}

int net_crossover_rx_buffers(uint16_t port_id, enum net_crossover_buffers buffers, uint16_t buffer_pool)
{
	struct crossover_port *port = find_port_by_id(port_id);
	bool pools = buffers != NET_CROSSOVER_POSTED;

	if (port == NULL)
		return -ENODEV;
	if (pools && (buffer_pool < CROSSOVER_BUFFER_POOL_MIN || buffer_pool > CROSSOVER_RING_MAX))
		return -EINVAL;
	if (pools && (port->pair->options.feed != CROSSOVER_FEED_WIRE ||
	              port->pair->options.dma == CROSSOVER_DMA_SWAP))
		return -ENOTSUP;
	CROSSOVER_HOLD_OR_RETURN(port->pair);
	if (port->started || (pools && port->notifies))
		return -EBUSY;
	if (pools)
		port->rx_mode = buffers == NET_CROSSOVER_SHARED ? CROSSOVER_RX_SHARED : CROSSOVER_RX_SPLIT;
	else if (crossover_has_buffer_pool(port))
		port->rx_mode = CROSSOVER_RX_STANDARD;
	port->buffer_pool = buffer_pool;
	crossover_receive_select(&rte_eth_devices[port_id]);
	return 0;
}

int net_crossover_notify(uint16_t port_id, struct qwait_doorbell *bells, uint16_t count)
{
	struct crossover_port *port = find_port_by_id(port_id);

	if (port == NULL)
		return -ENODEV;
	if (bells != NULL && count == 0)
		return -EINVAL;
	if (bells != NULL &&
	    (port->pair->options.feed != CROSSOVER_FEED_WIRE || crossover_has_buffer_pool(port)))
		return -ENOTSUP;
	CROSSOVER_HOLD_OR_RETURN(port->pair);
	port->notifies = 0;
	crossover_gate_update(port, port->gate != CROSSOVER_GATE_DOWN);
	/* A sender that read the old gate may still ring the old doorbells. */
	if (port->bells != NULL && crossover_quiesce(port) != 0)
		return -EBUSY;
	port->bells = bells;
	port->nb_bells = count;
	port->notifies = bells != NULL;
	crossover_gate_update(port, port->gate != CROSSOVER_GATE_DOWN);
	return 0;
}

static bool have_senders(const struct crossover_port *port, const uint16_t *senders, uint16_t count)
{
	for (uint16_t i = 0; i < count; i++)
		if (senders[i] != UINT16_MAX &&
		    (senders[i] >= port->nb_tx_queues || port->tx_queues[senders[i]] == NULL))
			return false;
	return true;
}

int net_crossover_assign(uint16_t rx_port_id, uint16_t tx_port_id, const uint16_t *senders, uint16_t count)
{
	struct crossover_port *port = find_port_by_id(rx_port_id), *peer = find_port_by_id(tx_port_id);

	if (port == NULL || peer == NULL)
		return -ENODEV;
	if (port->peer != peer || port->wire != NULL)
		return -ENOTSUP;
	CROSSOVER_HOLD_OR_RETURN(port->pair);
	if (count != 0 && crossover_has_buffer_pool(port))
		return -ENOTSUP;
	if (count != 0 && (count != port->nb_rx_queues || !have_senders(peer, senders, count)))
		return -EINVAL;
	return crossover_assign(port, senders, count);
}

int net_crossover_race_lost(uint16_t port_id, uint16_t queue_id, unsigned int lcore, const uint64_t **counter)
{
	struct crossover_rx_queue *rxq;
	int ret = find_rx_queue(port_id, queue_id, &rxq);

	if (ret != 0)
		return ret;
	if (rxq->corec == NULL)
		return -ENOTSUP;
	*counter = crossover_corec_race_lost(rxq, lcore);
	return 0;
}
