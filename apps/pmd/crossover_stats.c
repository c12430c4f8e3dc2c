/* SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>
#include <stdio.h>

#include "crossover.h"

struct counter {
	const char *name;
	size_t offset; /* of a uint64_t in crossover_rx_counts or crossover_tx_counts */
};

#define RX(name, field) {name, offsetof(struct crossover_rx_counts, field)}
#define TX(name, field) {name, offsetof(struct crossover_tx_counts, field)}

/* Statistics of the whole port: sums over its RX queues, its TX queues, and the peer's TX queues. */
static const struct counter port_rx[] = {RX("rx_flushed_packets", flushed),
                                         RX("rx_refill_failures", refill_failures),
                                         RX("rx_race_lost", race_lost)};
static const struct counter port_tx[] = {TX("tx_swapped_packets", swapped)};
static const struct counter port_peer[] = {TX("rx_filtered_packets", peer_filtered),
                                           TX("rx_oversize_errors", peer_oversize)};
/* Statistics per queue; their names begin with "rx_q<N>_" and "tx_q<N>_". */
static const struct counter queue_rx[] = {RX("packets", packets),
                                          RX("bytes", bytes),
                                          RX("missed", missed),
                                          RX("nombuf", nombuf),
                                          RX("refill_failures", refill_failures),
                                          RX("race_lost", race_lost)};
static const struct counter queue_tx[] = {TX("packets", packets),
                                          TX("bytes", bytes),
                                          TX("errors", errors),
                                          TX("swapped", swapped),
                                          TX("wire_sampled_cycles", wire_cycles),
                                          TX("wire_sampled_frames", wire_frames),
                                          TX("wire_interrupted_samples", wire_interrupted)};

static uint64_t load(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static uint64_t field(const void *counts, size_t offset)
{
	return *(const uint64_t *)((const char *)counts + offset);
}

/* sum += counts - baseline; all three are structs of uint64_t only. */
static void add_since(void *sum, const void *counts, const void *baseline, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		((uint64_t *)sum)[i] +=
		        load(&((const uint64_t *)counts)[i]) - ((const uint64_t *)baseline)[i];
}

/* Returns the frames that all TX queues of the peer missed. */
static uint64_t missed_by_senders(const struct crossover_rx_queue *rxq)
{
	const struct crossover_port *peer = rxq->port->peer;
	uint64_t missed = rxq->carried_missed;

	for (unsigned int i = 0; i < peer->nb_tx_queues; i++)
		if (peer->tx_queues[i] != NULL)
			missed += load(&peer->tx_queues[i]->missed[rxq->queue_id]);
	return missed;
}

static struct crossover_rx_counts collect_rx(const struct crossover_rx_queue *rxq)
{
	const struct crossover_rx_nic *nic = &rxq->ring.nic;
	struct crossover_rx_counts counts = {
	        .packets = load(&nic->packets) + load(&rxq->fed_packets),
	        .bytes = load(&nic->bytes) + load(&rxq->fed_bytes),
	        .missed = missed_by_senders(rxq),
	        .nombuf = load(&rxq->nombuf),
	        .refill_failures = load(&rxq->refill_failures),
	        .flushed = load(&rxq->flushed),
	        .race_lost = load(&rxq->race_lost),
	};

	if (rxq->wire != NULL) {
		counts.packets = load(&rxq->wire->packets);
		counts.bytes = load(&rxq->wire->bytes);
		counts.missed = load(&rxq->wire->missed);
		counts.oversize = load(&rxq->wire->oversize);
	}
	crossover_corec_count(rxq, &counts);
	return counts;
}

/* Adds nothing if the queue is not set up, as does add_tx(). */
static void add_rx(struct crossover_rx_counts *sum, const struct crossover_rx_queue *rxq)
{
	if (rxq == NULL)
		return;
	const struct crossover_rx_counts counts = collect_rx(rxq);

	add_since(sum, &counts, &rxq->baseline, sizeof(counts));
}

/* An external agent is the NIC, and counts what it read from the ring. */
static struct crossover_tx_counts collect_tx(const struct crossover_tx_queue *txq)
{
	static const struct crossover_tx_counts zero;
	struct crossover_tx_counts counts = {0};

	add_since(&counts, &txq->counts, &zero, sizeof(counts));
	if (txq->wire != NULL) {
		counts.packets = load(&txq->wire->packets);
		counts.bytes = load(&txq->wire->bytes);
	}
	return counts;
}

static void add_tx(struct crossover_tx_counts *sum, const struct crossover_tx_queue *txq)
{
	if (txq == NULL)
		return;
	const struct crossover_tx_counts counts = collect_tx(txq);

	add_since(sum, &counts, &txq->baseline, sizeof(*sum));
}

static struct crossover_rx_counts sum_rx(const struct crossover_port *port)
{
	struct crossover_rx_counts sum = {0};

	for (unsigned int i = 0; i < CROSSOVER_MAX_QUEUES; i++)
		add_rx(&sum, port->rx_queues[i]);
	return sum;
}

static struct crossover_tx_counts sum_tx(const struct crossover_port *port)
{
	struct crossover_tx_counts sum = {0};

	for (unsigned int i = 0; i < CROSSOVER_MAX_QUEUES; i++)
		add_tx(&sum, port->tx_queues[i]);
	return sum;
}

/* Sums the counts of the peer's frames at this port, including those of released TX queues, or of an agent's frames. */
static struct crossover_tx_counts sum_peer(const struct crossover_port *port,
                                           const struct crossover_rx_counts *rx)
{
	static const struct crossover_tx_counts zero;
	struct crossover_tx_counts sum = sum_tx(port->peer);

	add_since(&sum, &port->carried, &zero, sizeof(sum));
	sum.peer_oversize += rx->oversize;
	return sum;
}

static void fill_queues(const struct crossover_port *port, crossover_queue_stats *stats)
{
	for (unsigned int i = 0; stats != NULL && i < RTE_DIM(stats->q_ipackets); i++) {
		struct crossover_rx_counts rx = {0};
		struct crossover_tx_counts tx = {0};

		add_rx(&rx, port->rx_queues[i]);
		add_tx(&tx, port->tx_queues[i]);
		stats->q_ipackets[i] = rx.packets;
		stats->q_ibytes[i] = rx.bytes;
		stats->q_errors[i] = rx.missed;
		stats->q_opackets[i] = tx.packets;
		stats->q_obytes[i] = tx.bytes;
	}
}

CROSSOVER_STATS_GET(crossover_stats_get)
{
	const struct crossover_port *port = crossover_port_of(dev);
	struct crossover_tx_counts tx, peer;
	struct crossover_rx_counts rx;

	CROSSOVER_HOLD_OR_RETURN(port->pair);
	rx = sum_rx(port);
	tx = sum_tx(port);
	peer = sum_peer(port, &rx);
	stats->ipackets = rx.packets;
	stats->ibytes = rx.bytes;
	stats->imissed = rx.missed + peer.peer_missed;
	stats->ierrors = peer.peer_oversize;
	stats->rx_nombuf = rx.nombuf;
	stats->opackets = tx.packets;
	stats->obytes = tx.bytes;
	stats->oerrors = tx.errors;
	fill_queues(port, CROSSOVER_QUEUE_STATS(stats, queues));
	return 0;
}

/* Resets a TX queue's own fields or the peer's: the two ports reset different fields of the baseline. */
static void reset_tx(struct crossover_tx_queue *txq, bool own)
{
	struct crossover_tx_counts now = collect_tx(txq);

	if (own) {
		now.peer_filtered = txq->baseline.peer_filtered;
		now.peer_oversize = txq->baseline.peer_oversize;
		now.peer_missed = txq->baseline.peer_missed;
		txq->baseline = now;
	} else {
		txq->baseline.peer_filtered = now.peer_filtered;
		txq->baseline.peer_oversize = now.peer_oversize;
		txq->baseline.peer_missed = now.peer_missed;
	}
}

int crossover_stats_reset(struct rte_eth_dev *dev)
{
	struct crossover_port *port = crossover_port_of(dev);

	CROSSOVER_HOLD_OR_RETURN(port->pair);
	for (unsigned int i = 0; i < CROSSOVER_MAX_QUEUES; i++) {
		if (port->rx_queues[i] != NULL)
			port->rx_queues[i]->baseline = collect_rx(port->rx_queues[i]);
		if (port->tx_queues[i] != NULL)
			reset_tx(port->tx_queues[i], true);
		if (port->peer->tx_queues[i] != NULL)
			reset_tx(port->peer->tx_queues[i], false);
	}
	port->carried = (struct crossover_tx_counts){0};
	return 0;
}

void crossover_stats_begin(struct crossover_rx_queue *rxq)
{
	rxq->baseline = collect_rx(rxq);
}

void crossover_stats_begin_tx(struct crossover_tx_queue *txq)
{
	txq->baseline = collect_tx(txq);
}

void crossover_stats_carry(struct crossover_tx_queue *txq)
{
	struct crossover_tx_counts sum = {0};

	add_tx(&sum, txq);
	txq->peer->carried.peer_filtered += sum.peer_filtered;
	txq->peer->carried.peer_oversize += sum.peer_oversize;
	txq->peer->carried.peer_missed += sum.peer_missed;
	for (unsigned int i = 0; i < CROSSOVER_MAX_QUEUES; i++)
		if (txq->peer->rx_queues[i] != NULL)
			txq->peer->rx_queues[i]->carried_missed += txq->missed[i];
}

static unsigned int xstats_count(const struct rte_eth_dev *dev)
{
	return RTE_DIM(port_rx) + RTE_DIM(port_tx) + RTE_DIM(port_peer) +
	       dev->data->nb_rx_queues * RTE_DIM(queue_rx) + dev->data->nb_tx_queues * RTE_DIM(queue_tx);
}

/* Where extended statistics go: their values, or their names if `values` is NULL. */
struct listing {
	struct rte_eth_xstat *values;
	struct rte_eth_xstat_name *names;
	unsigned int at;
};

/* Adds the statistics of a port, or of a queue if there is a side. */
static void list(struct listing *to, const struct counter *counters, unsigned int count, const void *counts,
                 const char *side, unsigned int queue)
{
	for (unsigned int i = 0; i < count; i++, to->at++) {
		if (to->values != NULL) {
			to->values[to->at] = (struct rte_eth_xstat){
			        .id = to->at, .value = field(counts, counters[i].offset)};
			continue;
		}
		char *name = to->names[to->at].name;

		if (side == NULL)
			snprintf(name, RTE_ETH_XSTATS_NAME_SIZE, "%s", counters[i].name);
		else
			snprintf(name, RTE_ETH_XSTATS_NAME_SIZE, "%s_q%u_%s", side, queue, counters[i].name);
	}
}

static int list_all(const struct rte_eth_dev *dev, struct listing to)
{
	const struct crossover_port *port = crossover_port_of(dev);

	CROSSOVER_HOLD_OR_RETURN(port->pair);
	const struct crossover_rx_counts all_rx = sum_rx(port);
	const struct crossover_tx_counts all_tx = sum_tx(port), peer = sum_peer(port, &all_rx);

	list(&to, port_rx, RTE_DIM(port_rx), &all_rx, NULL, 0);
	list(&to, port_tx, RTE_DIM(port_tx), &all_tx, NULL, 0);
	list(&to, port_peer, RTE_DIM(port_peer), &peer, NULL, 0);
	for (unsigned int i = 0; i < dev->data->nb_rx_queues; i++) {
		struct crossover_rx_counts rx = {0};

		add_rx(&rx, port->rx_queues[i]);
		list(&to, queue_rx, RTE_DIM(queue_rx), &rx, "rx", i);
	}
	for (unsigned int i = 0; i < dev->data->nb_tx_queues; i++) {
		struct crossover_tx_counts tx = {0};

		add_tx(&tx, port->tx_queues[i]);
		list(&to, queue_tx, RTE_DIM(queue_tx), &tx, "tx", i);
	}
	return (int)to.at;
}

int crossover_xstats_get(struct rte_eth_dev *dev, struct rte_eth_xstat *xstats, unsigned int size)
{
	if (xstats == NULL || size < xstats_count(dev))
		return (int)xstats_count(dev);
	return list_all(dev, (struct listing){.values = xstats});
}

int crossover_xstats_names(struct rte_eth_dev *dev, struct rte_eth_xstat_name *names, unsigned int size)
{
	if (names == NULL || size < xstats_count(dev))
		return (int)xstats_count(dev);
	return list_all(dev, (struct listing){.names = names});
}
