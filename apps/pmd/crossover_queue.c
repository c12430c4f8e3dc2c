/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include <rte_malloc.h>

#include "crossover.h"

#define DEFAULT_FREE_THRESH 32

static int check_size(const struct crossover_port *port, const char *kind, uint16_t queue_id,
                      uint16_t nb_desc)
{
	if (nb_desc >= CROSSOVER_RING_MIN && nb_desc <= CROSSOVER_RING_MAX &&
	    nb_desc % CROSSOVER_RING_ALIGN == 0)
		return crossover_external_check_size(port, kind, queue_id, nb_desc);
	return CROSSOVER_REFUSE(
	        -EINVAL, "port %u: %s queue %u: %u descriptors; allowed: multiples of %u from %u to %u",
	        port->port_id, kind, queue_id, nb_desc, CROSSOVER_RING_ALIGN, CROSSOVER_RING_MIN,
	        CROSSOVER_RING_MAX);
}

static int check_threshold(const struct crossover_port *port, const char *name, uint16_t queue_id,
                           uint16_t value, uint16_t high)
{
	if (value <= high)
		return 0;
	return CROSSOVER_REFUSE(-EINVAL, "port %u: queue %u: %s=%u; allowed: 0 (default) to %u",
	                        port->port_id, queue_id, name, value, high);
}

static void *allocate_queue(const struct crossover_port *port, const char *kind, size_t bytes,
                            unsigned int socket_id)
{
	void *queue = rte_zmalloc_socket(kind, bytes, CROSSOVER_LINE_BYTES, (int)socket_id);

	if (queue == NULL)
		CROSSOVER_LOG(ERR, "port %u: no %zu bytes of DPDK memory for a queue on socket %d",
		              port->port_id, bytes, (int)socket_id);
	return queue;
}

/* Returns an mbuf's data_off, refcnt, nb_segs and port as the one word that receiving writes. */
static uint64_t rearm_word(uint16_t port_id)
{
	struct rte_mbuf m;

	memset(&m, 0, sizeof(m));
	m.data_off = RTE_PKTMBUF_HEADROOM;
	m.nb_segs = 1;
	m.port = port_id;
	rte_mbuf_refcnt_set(&m, 1);
	return *(const uint64_t *)(uintptr_t)&m.rearm_data;
}

static void init_rx_queue(struct crossover_rx_queue *rxq, struct crossover_port *port, uint16_t nb_desc,
                          const struct rte_eth_rxconf *conf, struct rte_mempool *pool)
{
	rxq->ring.nic.desc = rxq->desc = rxq->descriptors;
	rxq->size = rxq->ring.nic.size = nb_desc;
	rxq->ring.nic.pool = rxq->pool = pool;
	rxq->buffer_bytes = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
	rxq->ring.nic.buffer_bytes = rxq->buffer_bytes;
	rxq->free_thresh = conf->rx_free_thresh == 0 ? DEFAULT_FREE_THRESH : conf->rx_free_thresh;
	rxq->rearm = rearm_word(port->port_id);
	rxq->port_id = port->port_id;
	rxq->swap = port->pair->options.dma == CROSSOVER_DMA_SWAP;
	rxq->infinite = port->pair->options.feed == CROSSOVER_FEED_INFINITE;
	rxq->port = port;
	rxq->conf = *conf;
	rxq->conf.rx_free_thresh = (uint16_t)rxq->free_thresh;
}

int crossover_rx_queue_setup(struct rte_eth_dev *dev, uint16_t queue_id, uint16_t nb_desc,
                             unsigned int socket_id, const struct rte_eth_rxconf *conf,
                             struct rte_mempool *pool)
{
	struct crossover_port *port = crossover_port_of(dev);
	struct crossover_rx_queue *rxq;

	if (check_size(port, "RX", queue_id, nb_desc) != 0 ||
	    (port->rx_mode == CROSSOVER_RX_COREC &&
	     crossover_corec_check_size(port, queue_id, nb_desc) != 0) ||
	    check_threshold(port, "rx_free_thresh", queue_id, conf->rx_free_thresh, nb_desc / 2) != 0)
		return -EINVAL;
	CROSSOVER_HOLD_OR_RETURN(port->pair);
	rxq = allocate_queue(port, "crossover_rxq",
	                     sizeof(*rxq) + nb_desc * sizeof(rxq->descriptors[0]) + CROSSOVER_APART_BYTES,
	                     socket_id);
	if (rxq == NULL)
		return -ENOMEM;
	init_rx_queue(rxq, port, nb_desc, conf, pool);
	rxq->queue_id = queue_id;
	rxq->wire = port->wire == NULL ? NULL : &port->wire->rx[queue_id];
	crossover_stats_begin(rxq);
	__atomic_store_n(&port->rx_queues[queue_id], rxq, __ATOMIC_RELEASE);
	dev->data->rx_queues[queue_id] = rxq;
	crossover_apply_mtu(port, dev->data->mtu);
	return 0;
}

static void init_tx_queue(struct crossover_tx_queue *txq, const struct rte_eth_dev *dev, uint16_t nb_desc,
                          const struct rte_eth_txconf *conf)
{
	struct crossover_port *port = crossover_port_of(dev);
	uint64_t offloads = conf->offloads | dev->data->dev_conf.txmode.offloads;

	txq->port = port;
	txq->peer = port->peer;
	txq->sent = txq->entries;
	txq->missed = (uint64_t *)(txq->entries + nb_desc);
	txq->size = nb_desc;
	txq->descriptors = (struct wire_descriptor *)(txq->missed + CROSSOVER_MAX_QUEUES);
	/* At least a chunk, so that a chunk always fits. */
	txq->free_thresh = conf->tx_free_thresh == 0 && port->wire == NULL
	                           ? nb_desc
	                           : RTE_MAX(conf->tx_free_thresh, (uint16_t)CROSSOVER_CHUNK);
	txq->free_batch = conf->tx_rs_thresh == 0 ? CROSSOVER_CHUNK : conf->tx_rs_thresh;
	txq->fast_free = (offloads & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) != 0;
	txq->swap = port->pair->options.dma == CROSSOVER_DMA_SWAP;
	txq->conf = *conf;
	txq->conf.tx_free_thresh = (uint16_t)txq->free_thresh;
	txq->conf.tx_rs_thresh = (uint16_t)txq->free_batch;
	crossover_wire_init(txq);
}

int crossover_tx_queue_setup(struct rte_eth_dev *dev, uint16_t queue_id, uint16_t nb_desc,
                             unsigned int socket_id, const struct rte_eth_txconf *conf)
{
	struct crossover_port *port = crossover_port_of(dev);
	struct crossover_tx_queue *txq;

	if (check_size(port, "TX", queue_id, nb_desc) != 0 ||
	    check_threshold(port, "tx_free_thresh", queue_id, conf->tx_free_thresh, nb_desc) != 0 ||
	    check_threshold(port, "tx_rs_thresh", queue_id, conf->tx_rs_thresh, nb_desc - CROSSOVER_CHUNK) !=
	            0)
		return -EINVAL;
	CROSSOVER_HOLD_OR_RETURN(port->pair);
	txq = allocate_queue(
	        port, "crossover_txq",
	        sizeof(*txq) + nb_desc * sizeof(txq->entries[0]) +
	                CROSSOVER_MAX_QUEUES * sizeof(txq->missed[0]) +
	                (port->wire == NULL ? 0
	                                    : nb_desc * sizeof(txq->descriptors[0]) + CROSSOVER_APART_BYTES),
	        socket_id);
	if (txq == NULL)
		return -ENOMEM;
	init_tx_queue(txq, dev, nb_desc, conf);
	txq->queue_id = queue_id;
	txq->wire = port->wire == NULL ? NULL : &port->wire->tx[queue_id];
	txq->sender = queue_id + 1;
	crossover_stats_begin_tx(txq);
	port->tx_queues[queue_id] = txq;
	dev->data->tx_queues[queue_id] = txq;
	return 0;
}

/* Checks that one buffer holds a frame of the MTU, or that frames are scattered. */
static int check_buffers(const struct rte_eth_dev *dev, const struct crossover_rx_queue *rxq, uint16_t mtu)
{
	if ((dev->data->dev_conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0 ||
	    rxq->buffer_bytes >= mtu + CROSSOVER_L2_BYTES)
		return 0;
	return CROSSOVER_REFUSE(-EINVAL,
	                        "port %u: MTU %u needs %u bytes, RX queue %u has buffers of %u; enable "
	                        "RTE_ETH_RX_OFFLOAD_SCATTER or use larger mbufs",
	                        rxq->port_id, mtu, mtu + CROSSOVER_L2_BYTES, rxq->queue_id,
	                        rxq->buffer_bytes);
}

/* Returns whether an agent is still in the last epoch of a ring. */
static bool is_held(const struct wire_ring *ring)
{
	return ring != NULL && __atomic_load_n(&ring->busy, __ATOMIC_ACQUIRE) != 0;
}

static int start_rx(struct rte_eth_dev *dev, uint16_t queue_id)
{
	struct crossover_rx_queue *rxq = crossover_port_of(dev)->rx_queues[queue_id];
	int ret;

	if (rxq->started)
		return 0;
	if (is_held(rxq->wire))
		return -EBUSY;
	crossover_corec_free(rxq);
	ret = rxq->infinite ? crossover_feed_init(rxq) : 0;
	if (ret == 0)
		ret = crossover_rx_fill(rxq);
	if (ret != 0) {
		crossover_feed_release(rxq);
		CROSSOVER_LOG(ERR, "port %u: RX queue %u: cannot post %u buffers from mempool '%s': %s",
		              rxq->port_id, queue_id, rxq->size, rxq->pool->name, rte_strerror(-ret));
		return ret;
	}
	if (rxq->wire != NULL)
		ret = crossover_external_check(rxq);
	if (ret == 0 && rxq->port->rx_mode == CROSSOVER_RX_COREC)
		ret = crossover_corec_init(rxq, dev);
	else if (ret == 0 && crossover_has_buffer_pool(rxq->port))
		ret = crossover_buffer_pool_init(rxq, dev);
	if (ret != 0) {
		crossover_rx_drain(rxq);
		return ret;
	}
	rxq->started = 1;
	if (rxq->wire != NULL)
		crossover_external_open_rx(rxq);
	__atomic_store_n(&rxq->ring.nic.running, 1, __ATOMIC_RELEASE);
	dev->data->rx_queue_state[queue_id] = RTE_ETH_QUEUE_STATE_STARTED;
	return 0;
}

/* Shows the stop to senders; their last bursts may still be under way. */
static void close_rx(struct crossover_rx_queue *rxq)
{
	__atomic_store_n(&rxq->ring.nic.running, 0, __ATOMIC_RELEASE);
	crossover_external_close(rxq->wire);
}

/* Undoes close_rx() if the stop fails: the queue continues as before. */
static void reopen_rx(struct crossover_rx_queue *rxq)
{
	__atomic_store_n(&rxq->ring.nic.running, rxq->started, __ATOMIC_RELEASE);
}

/* Empties a queue after close_rx() and crossover_quiesce(). */
static void empty_rx(struct rte_eth_dev *dev, struct crossover_rx_queue *rxq)
{
	if (!rxq->started)
		return;
	crossover_corec_release(rxq);
	crossover_buffer_pool_release(rxq);
	crossover_rx_drain(rxq);
	crossover_feed_release(rxq);
	rxq->started = 0;
	dev->data->rx_queue_state[rxq->queue_id] = RTE_ETH_QUEUE_STATE_STOPPED;
}

/* Refuses to start or stop one queue alone where queues take each other's buffers. */
static int check_alone(const struct crossover_port *port, uint16_t queue_id)
{
	if (!crossover_has_buffer_pool(port))
		return 0;
	return CROSSOVER_REFUSE(
	        -ENOTSUP,
	        "port %u: RX queue %u: cannot start or stop alone with buffers in pools (start or stop "
	        "the port)",
	        port->port_id, queue_id);
}

int crossover_rx_queue_start(struct rte_eth_dev *dev, uint16_t queue_id)
{
	struct crossover_port *port = crossover_port_of(dev);
	int ret = check_alone(port, queue_id);

	if (ret != 0)
		return ret;
	CROSSOVER_HOLD_OR_RETURN(port->pair);
	ret = check_buffers(dev, port->rx_queues[queue_id], dev->data->mtu);
	return ret == 0 ? start_rx(dev, queue_id) : ret;
}

int crossover_rx_queue_stop(struct rte_eth_dev *dev, uint16_t queue_id)
{
	struct crossover_port *port = crossover_port_of(dev);
	struct crossover_rx_queue *rxq = port->rx_queues[queue_id];
	int ret = check_alone(port, queue_id);

	if (ret != 0)
		return ret;
	CROSSOVER_HOLD_OR_RETURN(port->pair);
	close_rx(rxq);
	ret = crossover_quiesce(port);
	if (ret == 0)
		empty_rx(dev, rxq);
	else
		reopen_rx(rxq);
	return ret;
}

static uint32_t count_senders(const struct crossover_port *port)
{
	uint32_t senders = 0;

	for (unsigned int i = 0; i < CROSSOVER_MAX_QUEUES; i++)
		senders += port->tx_queues[i] != NULL && port->tx_queues[i]->started;
	return senders;
}

static void set_shared(struct crossover_port *port, bool shared)
{
	for (unsigned int i = 0; i < CROSSOVER_MAX_QUEUES; i++)
		if (port->tx_queues[i] != NULL)
			port->tx_queues[i]->shared = shared;
}

static void show_sender(struct crossover_rx_queue *rxq, unsigned int sender)
{
	__atomic_store_n(&rxq->ring.nic.sender, (uint16_t)sender, __ATOMIC_RELEASE);
}

int crossover_unassign(struct crossover_port *port)
{
	bool any = false;
	int ret = 0;

	for (unsigned int i = 0; i < CROSSOVER_MAX_QUEUES; i++) {
		struct crossover_rx_queue *rxq = port->rx_queues[i];

		if (rxq == NULL || rxq->ring.nic.sender == CROSSOVER_SENDER_ANY)
			continue;
		show_sender(rxq, rxq->ring.nic.sender | CROSSOVER_SENDER_RESERVES);
		any = true;
	}
	if (any)
		ret = crossover_quiesce(port);
	for (unsigned int i = 0; any && ret == 0 && i < CROSSOVER_MAX_QUEUES; i++)
		if (port->rx_queues[i] != NULL)
			show_sender(port->rx_queues[i], CROSSOVER_SENDER_ANY);
	return ret;
}

int crossover_assign(struct crossover_port *port, const uint16_t *senders, uint16_t count)
{
	int ret = crossover_unassign(port);

	if (ret != 0 || count == 0)
		return ret;
	for (uint16_t i = 0; i < count; i++)
		if (port->rx_queues[i] != NULL && senders[i] < CROSSOVER_MAX_QUEUES)
			show_sender(port->rx_queues[i], (senders[i] + 1u) | CROSSOVER_SENDER_RESERVES);
	ret = crossover_quiesce(port);
	for (uint16_t i = 0; i < count; i++)
		if (port->rx_queues[i] != NULL && senders[i] < CROSSOVER_MAX_QUEUES)
			show_sender(port->rx_queues[i], ret == 0 ? senders[i] + 1u : CROSSOVER_SENDER_ANY);
	return ret;
}

/*
 * Several senders reserve descriptors, a single one takes them (crossover_ring.h). No sender may take while another one reserves. So all senders learn
 * of the second one, and have left the bursts that they began without knowing, before it starts. The reverse holds when only one is
 * left: it learns so once the others are known to have left. Returns 0, and no ring is assigned any more, or -EBUSY; then the senders continue to
 * reserve, which is correct for one as well, and assigned rings may stay with their queue.
 */
static int settle_sharing(struct crossover_port *port, uint32_t senders)
{
	int ret;

	if (port->wire != NULL) /* senders have nothing in common */
		return 0;
	ret = crossover_unassign(port->peer);
	if (ret != 0)
		return ret;
	if (senders > 1)
		set_shared(port, true);
	ret = crossover_quiesce(port->peer);
	if (ret == 0 && senders <= 1)
		set_shared(port, false);
	return ret;
}

static void start_tx(struct rte_eth_dev *dev, uint16_t queue_id)
{
	struct crossover_tx_queue *txq = crossover_port_of(dev)->tx_queues[queue_id];

	if (txq->wire != NULL)
		crossover_external_open_tx(txq);
	__atomic_store_n(&txq->started, 1, __ATOMIC_RELEASE);
	dev->data->tx_queue_state[queue_id] = RTE_ETH_QUEUE_STATE_STARTED;
}

/* Ends sending, and waits until an agent has left the ring. Returns -EBUSY if it does not. */
static int close_tx(struct crossover_tx_queue *txq)
{
	__atomic_store_n(&txq->started, 0, __ATOMIC_RELEASE);
	crossover_external_close(txq->wire);
	return txq->wire == NULL ? 0 : crossover_quiesce(txq->port);
}

/* After close_tx(). */
static void stop_tx(struct rte_eth_dev *dev, struct crossover_tx_queue *txq)
{
	if (txq->wire != NULL)
		crossover_external_flush(txq);
	else
		crossover_sent_free(txq, txq->pending);
	dev->data->tx_queue_state[txq->queue_id] = RTE_ETH_QUEUE_STATE_STOPPED;
}

int crossover_tx_queue_start(struct rte_eth_dev *dev, uint16_t queue_id)
{
	struct crossover_port *port = crossover_port_of(dev);
	int ret;

	CROSSOVER_HOLD_OR_RETURN(port->pair);
	if (port->tx_queues[queue_id]->started)
		return 0;
	if (is_held(port->tx_queues[queue_id]->wire))
		return -EBUSY;
	ret = settle_sharing(port, count_senders(port) + 1);
	if (ret == 0)
		start_tx(dev, queue_id);
	return ret;
}

int crossover_tx_queue_stop(struct rte_eth_dev *dev, uint16_t queue_id)
{
	struct crossover_port *port = crossover_port_of(dev);
	int ret;

	CROSSOVER_HOLD_OR_RETURN(port->pair);
	ret = close_tx(port->tx_queues[queue_id]);
	if (ret != 0)
		return ret;
	stop_tx(dev, port->tx_queues[queue_id]);
	if (count_senders(port) == 1)
		return settle_sharing(port, 1);
	return port->wire == NULL ? crossover_unassign(port->peer) : 0;
}

void crossover_rx_queue_release(struct rte_eth_dev *dev, uint16_t queue_id)
{
	struct crossover_port *port = crossover_port_of(dev);
	struct crossover_rx_queue *rxq = dev->data->rx_queues[queue_id];

	if (rxq == NULL || crossover_control_lock(port->pair) != 0)
		return;
	close_rx(rxq);
	__atomic_store_n(&port->rx_queues[queue_id], NULL, __ATOMIC_RELEASE);
	dev->data->rx_queues[queue_id] = NULL;
	if (crossover_quiesce(port) == 0) {
		empty_rx(dev, rxq);
		crossover_corec_free(rxq);
		rte_free(rxq);
	} else {
		CROSSOVER_LOG(ERR, "port %u: RX queue %u is still written to; its memory is left alone",
		              port->port_id, queue_id);
	}
	crossover_control_unlock(port->pair);
}

void crossover_tx_queue_release(struct rte_eth_dev *dev, uint16_t queue_id)
{
	struct crossover_port *port = crossover_port_of(dev);
	struct crossover_tx_queue *txq = dev->data->tx_queues[queue_id];

	if (txq == NULL || crossover_control_lock(port->pair) != 0)
		return;
	port->tx_queues[queue_id] = NULL;
	dev->data->tx_queues[queue_id] = NULL;
	if (close_tx(txq) == 0) {
		stop_tx(dev, txq);
		crossover_stats_carry(txq);
		rte_free(txq);
	} else {
		CROSSOVER_LOG(ERR, "port %u: TX queue %u is still read; its memory is left alone",
		              port->port_id, queue_id);
	}
	crossover_control_unlock(port->pair);
}

static int start_all_rx(struct rte_eth_dev *dev)
{
	struct crossover_port *port = crossover_port_of(dev);
	int ret = 0;

	for (uint16_t i = 0; i < port->nb_rx_queues && ret == 0; i++)
		if (port->rx_queues[i] != NULL && !port->rx_queues[i]->conf.rx_deferred_start)
			ret = start_rx(dev, i);
	return ret;
}

static bool starts_with_port(const struct crossover_tx_queue *txq)
{
	return txq != NULL && !txq->conf.tx_deferred_start;
}

static uint32_t count_starting(const struct crossover_port *port)
{
	uint32_t starting = 0;

	for (uint16_t i = 0; i < port->nb_tx_queues; i++)
		starting += starts_with_port(port->tx_queues[i]);
	return starting;
}

int crossover_queues_start(struct rte_eth_dev *dev)
{
	struct crossover_port *port = crossover_port_of(dev);
	int ret = start_all_rx(dev);

	if (ret == 0)
		ret = settle_sharing(port, count_starting(port));
	if (ret != 0) {
		crossover_queues_stop(dev);
		return ret;
	}
	for (uint16_t i = 0; i < port->nb_tx_queues; i++)
		if (starts_with_port(port->tx_queues[i]))
			start_tx(dev, i);
	return 0;
}

int crossover_queues_stop(struct rte_eth_dev *dev)
{
	struct crossover_port *port = crossover_port_of(dev);
	int ret;

	for (uint16_t i = 0; i < port->nb_rx_queues; i++)
		if (port->rx_queues[i] != NULL)
			close_rx(port->rx_queues[i]);
	for (uint16_t i = 0; i < port->nb_tx_queues; i++)
		if (port->tx_queues[i] != NULL)
			crossover_external_close(port->tx_queues[i]->wire);
	ret = crossover_quiesce(port);
	for (uint16_t i = 0; i < port->nb_rx_queues; i++)
		if (port->rx_queues[i] != NULL && ret == 0)
			empty_rx(dev, port->rx_queues[i]);
		else if (port->rx_queues[i] != NULL)
			reopen_rx(port->rx_queues[i]);
	if (ret != 0)
		return ret;
	for (uint16_t i = 0; i < port->nb_tx_queues; i++)
		if (port->tx_queues[i] != NULL) {
			close_tx(port->tx_queues[i]);
			stop_tx(dev, port->tx_queues[i]);
		}
	return 0;
}

int crossover_check_mtu(const struct rte_eth_dev *dev, uint16_t mtu)
{
	const struct crossover_port *port = crossover_port_of(dev);
	int ret = 0;

	for (uint16_t i = 0; i < port->nb_rx_queues && ret == 0; i++)
		if (port->rx_queues[i] != NULL)
			ret = check_buffers(dev, port->rx_queues[i], mtu);
	return ret;
}

void crossover_apply_mtu(struct crossover_port *port, uint16_t mtu)
{
	port->max_frame_bytes = mtu + CROSSOVER_L2_BYTES;
	for (uint16_t i = 0; i < CROSSOVER_MAX_QUEUES; i++) {
		struct crossover_rx_queue *rxq = port->rx_queues[i];

		if (rxq != NULL)
			rxq->ring.nic.plain_bytes =
			        RTE_MIN(port->max_frame_bytes, (uint32_t)rxq->buffer_bytes);
	}
}

void crossover_rxq_info(struct rte_eth_dev *dev, uint16_t queue_id, struct rte_eth_rxq_info *info)
{
	const struct crossover_rx_queue *rxq = dev->data->rx_queues[queue_id];

	info->mp = rxq->pool;
	info->conf = rxq->conf;
	info->nb_desc = (uint16_t)rxq->size;
	info->rx_buf_size = rxq->buffer_bytes;
	info->scattered_rx = (dev->data->dev_conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
}

void crossover_txq_info(struct rte_eth_dev *dev, uint16_t queue_id, struct rte_eth_txq_info *info)
{
	const struct crossover_tx_queue *txq = dev->data->tx_queues[queue_id];

	info->conf = txq->conf;
	info->nb_desc = (uint16_t)txq->size;
}
