/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>

#include <bus_vdev_driver.h>
#include <ethdev_driver.h>
#include <rte_malloc.h>

#include "crossover_classify.h"
#include "crossover_compat.h"
#include "crossover_control.h"
#include "crossover_corec.h"
#include "crossover_buffer_pool.h"
#include "crossover_describe.h"
#include "crossover_devargs.h"
#include "crossover_ethdev.h"
#include "crossover_feed.h"
#include "crossover_filter.h"
#include "crossover_log.h"
#include "crossover_probe.h"
#include "crossover_quiesce.h"
#include "net_crossover.h"

RTE_LOG_REGISTER(crossover_logtype, pmd.net.crossover, NOTICE);

static const char *const suffixes[2] = {"_a", "_b"};

static int port_name(char *name, size_t size, const struct rte_vdev_device *vdev, unsigned int side)
{
	int length = snprintf(name, size, "%s%s", vdev->device.name, suffixes[side]);

	if (length < (int)size)
		return 0;
	CROSSOVER_LOG(ERR, "device name '%s' is too long for a port name", vdev->device.name);
	return -EINVAL;
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

void crossover_pair_detach(struct crossover_port *port)
{
	struct crossover_pair *pair = port->pair;

	port->attached = 0;
	if (!port->peer->attached) {
		pthread_mutex_destroy(&pair->control);
		rte_free(pair);
	}
}

static int create_port(struct rte_vdev_device *vdev, struct crossover_port *port, unsigned int side)
{
	char name[RTE_ETH_NAME_MAX_LEN];
	struct rte_eth_dev *dev;

	if (port_name(name, sizeof(name), vdev, side) != 0)
		return -EINVAL;
	dev = rte_eth_dev_allocate(name);
	if (dev == NULL)
		return -ENOMEM;
	dev->device = &vdev->device;
	dev->data->dev_private = port;
	dev->data->mac_addrs = port->mac_addrs;
	dev->data->numa_node = vdev->device.numa_node;
	dev->data->dev_flags |= RTE_ETH_DEV_INTR_LSC;
	dev->data->dev_link = (struct rte_eth_link){.link_duplex = RTE_ETH_LINK_FULL_DUPLEX};
	port->port_id = dev->data->port_id;
	port->attached = 1;
	crossover_quiesce_register(port);
	crossover_ethdev_select(dev);
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
			crossover_ethdev_close(dev);
			rte_eth_dev_release_port(dev);
		}
	}
	return 0;
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
	if (dev == NULL) {
		CROSSOVER_LOG(ERR, "the primary process has no port '%s'", name);
		return -ENODEV;
	}
	dev->device = &vdev->device;
	crossover_quiesce_register(dev->data->dev_private);
	crossover_ethdev_select(dev);
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

static bool is_ours(uint16_t port_id)
{
	const struct rte_eth_dev *dev;

	if (!rte_eth_dev_is_valid_port(port_id))
		return false;
	dev = &rte_eth_devices[port_id];
	return dev->rx_pkt_burst != NULL && strcmp(dev->device->driver->name, NET_CROSSOVER_DRIVER_NAME) == 0;
}

static int find_rx_queue(uint16_t port_id, uint16_t queue_id, struct crossover_rx_queue **rxq)
{
	const struct rte_eth_dev *dev;

	if (!is_ours(port_id))
		return -ENODEV;
	dev = &rte_eth_devices[port_id];
	if (queue_id >= dev->data->nb_rx_queues)
		return -EINVAL;
	*rxq = dev->data->rx_queues[queue_id];
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
	ret = crossover_control_lock(rxq->port->pair);
	if (ret != 0)
		return ret;
	ret = crossover_feed_set_queue_polls(rxq, probability, seed);
	crossover_control_unlock(rxq->port->pair);
	return ret;
}

int net_crossover_rx_corec(uint16_t port_id, bool on)
{
	struct crossover_port *port;
	struct rte_eth_dev *dev;
	int ret;

	if (!is_ours(port_id))
		return -ENODEV;
	dev = &rte_eth_devices[port_id];
	port = dev->data->dev_private;
	if (on && port->pair->options.feed == CROSSOVER_FEED_INFINITE)
		return -ENOTSUP;
	ret = crossover_control_lock(port->pair);
	if (ret != 0)
		return ret;
	if (port->started) {
		ret = -EBUSY;
	} else {
		port->rx_mode = on ? CROSSOVER_RX_COREC : CROSSOVER_RX_STANDARD;
		crossover_describe_select(dev);
	}
	crossover_control_unlock(port->pair);
	return ret;
}

static int set_buffers(struct rte_eth_dev *dev, enum net_crossover_buffers buffers, uint16_t buffer_pool)
{
	struct crossover_port *port = dev->data->dev_private;

	if (port->started || (buffers != NET_CROSSOVER_POSTED && port->notifies))
		return -EBUSY;
	if (buffers == NET_CROSSOVER_POSTED)
		port->rx_mode = crossover_has_buffer_pool(port) ? CROSSOVER_RX_STANDARD : port->rx_mode;
	else
		port->rx_mode = buffers == NET_CROSSOVER_SHARED ? CROSSOVER_RX_SHARED : CROSSOVER_RX_SPLIT;
	port->buffer_pool = buffer_pool;
	crossover_describe_select(dev);
	return 0;
}

int net_crossover_rx_buffers(uint16_t port_id, enum net_crossover_buffers buffers, uint16_t buffer_pool)
{
	const struct crossover_options *options;
	struct crossover_port *port;
	int ret;

	if (!is_ours(port_id))
		return -ENODEV;
	port = rte_eth_devices[port_id].data->dev_private;
	options = &port->pair->options;
	if (buffers != NET_CROSSOVER_POSTED &&
	    (buffer_pool < CROSSOVER_BUFFER_POOL_MIN || buffer_pool > CROSSOVER_RING_MAX))
		return -EINVAL;
	if (buffers != NET_CROSSOVER_POSTED &&
	    (options->feed == CROSSOVER_FEED_INFINITE || options->dma == CROSSOVER_DMA_SWAP))
		return -ENOTSUP;
	ret = crossover_control_lock(port->pair);
	if (ret != 0)
		return ret;
	ret = set_buffers(&rte_eth_devices[port_id], buffers, buffer_pool);
	crossover_control_unlock(port->pair);
	return ret;
}

int net_crossover_notify(uint16_t port_id, struct qwait_doorbell *bells, uint16_t count)
{
	struct crossover_port *port;
	int ret;

	if (!is_ours(port_id))
		return -ENODEV;
	port = rte_eth_devices[port_id].data->dev_private;
	if (bells != NULL && count == 0)
		return -EINVAL;
	if (bells != NULL &&
	    (port->pair->options.feed == CROSSOVER_FEED_INFINITE || crossover_has_buffer_pool(port)))
		return -ENOTSUP;
	ret = crossover_control_lock(port->pair);
	if (ret != 0)
		return ret;
	port->notifies = 0;
	crossover_gate_update(port, port->gate != CROSSOVER_GATE_DOWN);
	/* a sender that came through the gate of before may still ring the bells of before */
	if (port->bells != NULL)
		ret = crossover_quiesce(port);
	if (ret == 0) {
		port->bells = bells;
		port->nb_bells = count;
		port->notifies = bells != NULL;
		crossover_gate_update(port, port->gate != CROSSOVER_GATE_DOWN);
	}
	crossover_control_unlock(port->pair);
	return ret;
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
