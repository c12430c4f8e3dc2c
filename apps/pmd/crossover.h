/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions that the driver's source files share. Read crossover_ring.h first (the wire's memory layout), then
 * crossover_port.h (all state), then the fast path: crossover_send.c, crossover_dma.c, crossover_receive.c.
 *
 * Functions that return int return 0 or -errno, and log the reason unless they say otherwise. Functions that take an rte_eth_dev and have
 * no comment are ethdev operations of the same name.
 */
#ifndef CROSSOVER_H
#define CROSSOVER_H

#include <rte_branch_prediction.h>
#include <rte_log.h>

#include "crossover_compat.h"
#include "crossover_port.h"

extern int crossover_logtype;

/* One line, without "\n" in the format. */
#define CROSSOVER_LOG(level, format, ...)                                                                    \
	rte_log(RTE_LOG_##level, crossover_logtype, "net_crossover: " format "\n", ##__VA_ARGS__)

/* Logs an error; its value is the error. */
#define CROSSOVER_REFUSE(error, ...) (CROSSOVER_LOG(ERR, __VA_ARGS__), (error))

static inline struct crossover_port *crossover_port_of(const struct rte_eth_dev *dev)
{
	return dev->data->dev_private;
}

/*
 * crossover_control.c: allow one control thread at a time per pair, across processes, and wait for senders to end their
 * bursts.
 */

#define CROSSOVER_CONTROL_MAX_S  5
#define CROSSOVER_QUIESCE_MAX_NS UINT64_C(1000000000)

int crossover_control_init(struct crossover_pair *pair);

/* Returns -EBUSY after CROSSOVER_CONTROL_MAX_S. A holder that died does not block the lock. */
int crossover_control_lock(struct crossover_pair *pair);
void crossover_control_unlock(struct crossover_pair *pair);

static inline void crossover_control_let_go(struct crossover_pair *const *held)
{
	if (*held != NULL)
		crossover_control_unlock(*held);
}

/* Holds the lock to the end of the block, or returns -EBUSY from the function. */
#define CROSSOVER_HOLD_OR_RETURN(pair)                                                                       \
	struct crossover_pair *held_ __attribute__((cleanup(crossover_control_let_go))) = (pair);            \
	if (crossover_control_lock(held_) != 0) {                                                            \
		held_ = NULL;                                                                                \
		return -EBUSY;                                                                               \
	}

/* Registers this process for membarrier(2). Once per process and port; sets port->full_fence where that fails. */
void crossover_quiesce_register(struct crossover_port *port);

/*
 * Waits until no sender still uses state that 'port' showed before the call: until each TX queue of the peer was seen outside a burst once.
 * Returns -EBUSY after CROSSOVER_QUIESCE_MAX_NS if a sender does not leave its burst (its process is stopped or killed).
 *
 * This keeps the control path from removing a ring under a sender, without a fence in the send path. A sender marks its TX queue busy,
 * then loads the peer's gate and rings; a control thread changes gate or rings, then waits for idle TX queues. The sender's store and load
 * must not pass each other. A full fence per burst would cost about 20 cycles; instead the control thread makes every registered process
 * execute one by membarrier(2). Where the kernel lacks it, senders fence.
 */
int crossover_quiesce(struct crossover_port *port);

/* Lets others run, and returns whether the deadline (CLOCK_MONOTONIC) lies ahead. */
bool crossover_wait_until(uint64_t deadline_ns);

static inline void crossover_burst_enter(struct crossover_tx_queue *txq)
{
	__atomic_store_n(&txq->busy, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(__atomic_load_n(&txq->peer->full_fence, __ATOMIC_RELAXED), 0))
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void crossover_burst_leave(struct crossover_tx_queue *txq)
{
	__atomic_store_n(&txq->busy, 0, __ATOMIC_RELEASE);
}

/* crossover_config.c: MAC addresses, promiscuous mode, RSS, and the link. The cable has carrier if both ports are started and up; one that
 * ends at an external agent, if its port is. */

/* Nominal: nothing is paced, a sender is as fast as its core. */
#define CROSSOVER_LINK_MBPS RTE_ETH_SPEED_NUM_100G

int crossover_promiscuous_enable(struct rte_eth_dev *dev);
int crossover_promiscuous_disable(struct rte_eth_dev *dev);
int crossover_allmulticast_enable(struct rte_eth_dev *dev);
int crossover_allmulticast_disable(struct rte_eth_dev *dev);
int crossover_mac_add(struct rte_eth_dev *dev, struct rte_ether_addr *mac, uint32_t index, uint32_t pool);
void crossover_mac_remove(struct rte_eth_dev *dev, uint32_t index);
int crossover_mac_set(struct rte_eth_dev *dev, struct rte_ether_addr *mac);
int crossover_multicast_set(struct rte_eth_dev *dev, struct rte_ether_addr *macs, uint32_t count);
int crossover_reta_update(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *groups, uint16_t size);
int crossover_reta_query(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *groups, uint16_t size);
int crossover_rss_update(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);
int crossover_rss_get(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);
int crossover_link_update(struct rte_eth_dev *dev, int wait);
int crossover_link_up(struct rte_eth_dev *dev);
int crossover_link_down(struct rte_eth_dev *dev);

/* RSS as rte_eth_dev_configure() asks for it; the RETA assigns the queues round-robin. */
int crossover_rss_configure(struct crossover_port *port, const struct rte_eth_conf *conf);

/*
 * Updates gates and link status of both ports. The control lock is held. Returns whether carrier changed; then
 * crossover_link_announce() is due once the lock is free.
 */
bool crossover_link_refresh(struct crossover_pair *pair);

/* Shows a configuration that was changed without the control lock to an external agent. Returns 0 or -EBUSY. */
int crossover_republish(struct crossover_port *port);

/* Calls the link callbacks of this process; other processes poll the link state. */
void crossover_link_announce(struct crossover_pair *pair);

/* crossover_classify.c: what a NIC does between the wire and its RX rings. Run by the sender's core. */

/*
 * Which of three programs the senders to a port run depends on its configuration, and their cost per frame differs:
 * - direct: promiscuous, neither RSS over several queues nor a hash, type or checksum wanted. The frame is not read.
 * - sorted: 2 to CROSSOVER_SORTED_QUEUES RX queues. Frames are classified, and those of a chunk that go to one queue are put side by side.
 * - in order: more RX queues. Frames are classified; runs for one queue are as long as the traffic makes them. With so many queues the
 *   runs in a chunk are so short, and of such different lengths, that sorting costs more than it gains.
 * So a curve over the number of queues compares three programs of the wire. Their cycles are sampled per TX queue (crossover_wire_begin())
 * and are neither useful nor tax of a core; the generator's top rate does depend on them. rte_eth_tx_burst_mode_get() on the sending port
 * names the program that runs.
 */
enum crossover_program { CROSSOVER_PROGRAM_DIRECT, CROSSOVER_PROGRAM_SORTED, CROSSOVER_PROGRAM_IN_ORDER };

#define CROSSOVER_SORTED_QUEUES 4

enum crossover_program crossover_program_of(const struct crossover_port *port);

#define CROSSOVER_FILTERED UINT16_MAX

struct crossover_verdicts {
	uint16_t queue[CROSSOVER_CHUNK]; /* RX queue, or CROSSOVER_FILTERED */
	uint64_t tag[CROSSOVER_CHUNK];   /* hash, type and flags for the write-back word, or 0 */
};

/* Finds the RX queue of 'port' for each of 'count' (at most CROSSOVER_CHUNK) frames. */
void crossover_classify(const struct crossover_port *port, struct rte_mbuf *const *pkts, uint32_t count,
                        struct crossover_verdicts *verdicts);

/* Returns whether all 'count' frames go to one queue. */
static inline bool crossover_is_one_run(const uint16_t *queues, uint32_t count)
{
	uint16_t others = 0;

	for (uint32_t i = 1; i < count; i++)
		others |= queues[i] ^ queues[0];
	return others == 0;
}

/*
 * Sorts a chunk by RX queue, and keeps the order within each queue, if 'port' has few queues: a queue's descriptor lines then go to the other
 * core and back once per chunk. Frames of one burst for different queues have no order that a receiver can see. Changes 'verdicts', and
 * copies 'pkts' to 'sorted'. Returns the list to send: 'pkts' if nothing moved.
 */
struct rte_mbuf *const *crossover_sort(const struct crossover_port *port, struct crossover_verdicts *verdicts,
                                       struct rte_mbuf *const *pkts, uint32_t count,
                                       struct rte_mbuf **sorted);

/* Derives the gate and the classification flags of a port from its configuration, and shows them to the senders. */
void crossover_gate_update(struct crossover_port *port, bool carrier);

/*
 * Packet types and checksums. The sender looks at the headers and writes what it found into the write-back word; the receiver only translates
 * bits and never touches the frame. Both happen only on a port that wants it: it was configured with RTE_ETH_RX_OFFLOAD_*_CKSUM, or the
 * program asked for types.
 *
 * A program asks for types with rte_eth_dev_set_ptypes(), or with rte_eth_dev_get_supported_ptypes(): by the API's rules an announced
 * type must be recognised, and programs such as l3fwd ask after the start and rely on the answer from then on. An earlier
 * rte_eth_dev_set_ptypes() has precedence.
 *
 * Checksums are not computed: a frame on this wire is intact. The flags follow from the headers: 'good' for an IPv4 header, and for TCP and
 * UDP that are no fragments.
 */
CROSSOVER_PTYPES_GET(crossover_ptypes_get);
int crossover_ptypes_set(struct rte_eth_dev *dev, uint32_t mask);

/* Bits of the write-back word for a frame of this type (RTE_PTYPE_*, layers 2 to 4). */
uint64_t crossover_describe_type(const struct crossover_port *port, uint32_t type);

/* crossover_dma.c: the DMA engine between two ports, run by the sender's core. */

/* mbufs of a chunk that did not reach the other side: freed when the wire's part of the chunk is done. */
struct crossover_leftovers {
	uint32_t nb_kept, nb_buffers;
	struct rte_mempool *pool;               /* of the buffers */
	struct rte_mbuf *kept[CROSSOVER_CHUNK]; /* frames that did not change hands */
	void *buffers[CROSSOVER_CHUNK];         /* posted buffers that frames replaced */
};

/* Adds frames that stay with the TX queue, at most CROSSOVER_CHUNK per chunk. */
static inline void crossover_leftovers_keep(struct crossover_leftovers *left, struct rte_mbuf *const *pkts,
                                            uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		left->kept[left->nb_kept++] = pkts[i];
}

static inline void crossover_leftovers_give_back(struct crossover_leftovers *left)
{
	rte_mempool_put_bulk(left->pool, left->buffers, left->nb_buffers);
	left->nb_buffers = 0;
}

/*
 * Delivers 'count' (at most CROSSOVER_CHUNK) frames to one RX queue: fills the buffers that the receiver posted, then sets the DD bits of all
 * of them together, as NICs coalesce their write-backs. Counts the frames on both sides, except missed ones, whose number it returns.
 * tags[i] is or-ed into the write-back word of frame i (hash, type and flags); NULL: no tags. Descriptors are
 * reserved by compare-and-swap if other senders may send to the ring.
 *
 * dma=copy: the caller keeps all mbufs. dma=swap: the leftovers get the mbufs that could not change hands, and the buffers that did. A buffer
 * changes hands only if it comes from the mempool of the RX queue (an RX queue hands out mbufs of its own pool, and applications rely on
 * it), is neither shared, attached nor external, is one segment, and has the usual headroom; otherwise the frame is copied.
 */
uint32_t crossover_dma_deliver(struct crossover_tx_queue *txq, struct crossover_rx_ring *ring,
                               struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count,
                               struct crossover_leftovers *left);

/*
 * Counts frames as sent, except those that no NIC would send. Returns how many of them the peer would take, because their length is right
 * for it.
 */
uint32_t crossover_count_and_judge(struct crossover_tx_queue *txq, struct rte_mbuf *const *pkts,
                                   uint32_t count);

/* crossover_send.c */

/*
 * Sends frames to the peer port; the caller's core does what the NIC's DMA engine would. Frames that find no posted descriptor are sent and
 * missed by the peer, as on a wire. Takes all frames, or none if there is no carrier or the queue is stopped.
 */
uint16_t crossover_tx_burst(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts);

int crossover_tx_descriptor_status(void *queue, uint16_t offset);
int crossover_tx_done_cleanup(void *queue, uint32_t frames);

/* Frees the 'count' (at most pending) oldest entries of the TX ring. */
void crossover_sent_free(struct crossover_tx_queue *txq, uint32_t count);

/*
 * Seeds the draws of timed chunks and measures what a time stamp costs. Call it before the TX queue is used.
 *
 * The time in which a sender's core plays the NIC (MAC filter, RSS, copy or swap, descriptors) is sampled; freeing sent mbufs is not part of
 * it, because a driver does that on a real NIC, too. About one chunk in CROSSOVER_WIRE_EVERY is timed. A chunk is chosen before its frames are
 * looked at, so frames x sampled cycles / sampled frames of a TX queue estimates the total, whatever the mixture of sizes. Distances between
 * timed chunks are random, so that they do not beat against periods of the traffic.
 */
void crossover_wire_init(struct crossover_tx_queue *txq);

#define CROSSOVER_WIRE_EVERY 64 /* chunks per timed one, on average; at most twice as many; a power of two */

/* crossover_receive.c */

/*
 * Gives the port the receive function that fits its mode, also while it runs. A secondary process always gets the variant that fills in
 * types and checksums, because the primary process may reconfigure the port.
 */
void crossover_receive_select(struct rte_eth_dev *dev);

/* Returns whether the port's receive function fills in types and checksums. */
bool crossover_receives_described(const struct rte_eth_dev *dev);

int crossover_rx_descriptor_status(void *queue, uint16_t offset);
int crossover_get_monitor_addr(void *queue, struct rte_power_monitor_cond *condition);

/* Returns how many descriptors are filled and not polled yet. */
crossover_queue_count crossover_rx_queue_count(void *queue);

/*
 * Empties the ring's state and posts a buffer in every descriptor. The NIC side must not run. On -ENOMEM nothing is
 * posted.
 */
int crossover_rx_fill(struct crossover_rx_queue *rxq);

/* Gives all buffers of the ring back to their pools. Neither the NIC side nor a poller may run. */
void crossover_rx_drain(struct crossover_rx_queue *rxq);

/* crossover_queue.c */

int crossover_rx_queue_setup(struct rte_eth_dev *dev, uint16_t queue_id, uint16_t nb_desc,
                             unsigned int socket_id, const struct rte_eth_rxconf *conf,
                             struct rte_mempool *pool);
int crossover_tx_queue_setup(struct rte_eth_dev *dev, uint16_t queue_id, uint16_t nb_desc,
                             unsigned int socket_id, const struct rte_eth_txconf *conf);
void crossover_rx_queue_release(struct rte_eth_dev *dev, uint16_t queue_id);
void crossover_tx_queue_release(struct rte_eth_dev *dev, uint16_t queue_id);
int crossover_rx_queue_start(struct rte_eth_dev *dev, uint16_t queue_id);
int crossover_rx_queue_stop(struct rte_eth_dev *dev, uint16_t queue_id);
int crossover_tx_queue_start(struct rte_eth_dev *dev, uint16_t queue_id);
int crossover_tx_queue_stop(struct rte_eth_dev *dev, uint16_t queue_id);
void crossover_rxq_info(struct rte_eth_dev *dev, uint16_t queue_id, struct rte_eth_rxq_info *info);
void crossover_txq_info(struct rte_eth_dev *dev, uint16_t queue_id, struct rte_eth_txq_info *info);

/*
 * Assigns RX ring i of 'port' to TX queue senders[i] of the peer: that queue alone sends there, as a single sender does, and the frames of others for
 * this ring are missed. CROSSOVER_MAX_QUEUES or more: every queue may send, as to all rings at first. crossover_unassign() lets all send again.
 * RSS calls it before frames take other ways, and so do starts and stops of TX queues. The control lock is held. -EBUSY if a sender
 * does not leave its burst; then no ring is newly assigned, and one that was assigned stays so.
 */
int crossover_assign(struct crossover_port *port, const uint16_t *senders, uint16_t count);
int crossover_unassign(struct crossover_port *port);

/* Starts all queues without deferred start. On error none is left started. The caller holds the control lock. */
int crossover_queues_start(struct rte_eth_dev *dev);
/* Returns -EBUSY, with the RX queues left as they are, if a sender does not leave its burst. */
int crossover_queues_stop(struct rte_eth_dev *dev);

/* Refuses an MTU for which a buffer of some RX queue is too small, if frames may not be scattered. */
int crossover_check_mtu(const struct rte_eth_dev *dev, uint16_t mtu);
/* Shows the MTU to the senders. */
void crossover_apply_mtu(struct crossover_port *port, uint16_t mtu);

/*
 * crossover_stats.c. A frame is counted when it is on the wire, as hardware does, not when it is polled: whenever no
 * core sends, opackets of one port = ipackets + imissed + ierrors + rx_filtered_packets of the other.
 */

CROSSOVER_STATS_GET(crossover_stats_get);
int crossover_stats_reset(struct rte_eth_dev *dev);
int crossover_xstats_get(struct rte_eth_dev *dev, struct rte_eth_xstat *xstats, unsigned int size);
int crossover_xstats_names(struct rte_eth_dev *dev, struct rte_eth_xstat_name *names, unsigned int size);

/* Call when a queue is set up and not visible yet: excludes frames that were counted under its number before. */
void crossover_stats_begin(struct crossover_rx_queue *rxq);
void crossover_stats_begin_tx(struct crossover_tx_queue *txq);
/* Call when a TX queue is released: keeps its frames' counts at the peer in the peer's statistics. */
void crossover_stats_carry(struct crossover_tx_queue *txq);

/* crossover_devargs.c */

#define CROSSOVER_DEVARGS_HELP                                                                               \
	"dma=copy|swap "                                                                                     \
	"feed=wire|infinite|external "                                                                       \
	"rx=standard|corec "                                                                                 \
	"ports=both|a "                                                                                      \
	"size=<64..9000> "                                                                                   \
	"flows=<1..65535> "                                                                                  \
	"mac_a=<xx:xx:xx:xx:xx:xx> "                                                                         \
	"mac_b=<xx:xx:xx:xx:xx:xx>"

/*
 * Reads the device arguments ("key=value,...", may be NULL or empty) into 'options'. Returns -EINVAL after logging which key or value is
 * wrong and what is allowed: unknown key, key given twice, missing or bad value, keys that exclude each other.
 */
int crossover_devargs_parse(const char *args, struct crossover_options *options);

/*
 * crossover_feed.c, feed=infinite: the polling core itself fills buffers with frames and sets DD, so no generator core is needed and no other
 * core writes the descriptors.
 *
 * A queue is hot, as all are at first: buffers are filled when they are posted, and every poll gets as many packets as it asks for. Or it is
 * cold: a poll finds one packet with a given probability, independently of all other polls, and nothing otherwise. Descriptors of a cold queue
 * are posted without DD. When a packet is put into the ring, the number of polls until the next one is drawn from the geometric
 * distribution; at the end of the last of these polls the frame is written and DD set. So an empty poll reads the descriptor as always and finds
 * no DD; beyond that it counts down a field of the line that every poll writes.
 */

#define CROSSOVER_TEMPLATE_BYTES 64

/* Ethernet, IPv4 and UDP header of a flow, and the write-back word that goes with it. */
struct crossover_template {
	uint8_t head[CROSSOVER_TEMPLATE_BYTES];
	uint64_t writeback;
};

/*
 * Makes the frames of a queue: flow i of the port goes to queue i modulo the number of queues; a queue beyond the number of flows repeats
 * one. Returns -EINVAL (logged) if the frame does not fit one buffer, or -ENOMEM.
 */
int crossover_feed_init(struct crossover_rx_queue *rxq);
void crossover_feed_release(struct crossover_rx_queue *rxq);

/* 'count' descriptors have buffers and no DD. Fills those of a hot queue with frames and sets DD; bytes behind the headers stay. */
void crossover_feed_post(struct crossover_rx_queue *rxq, struct crossover_rx_desc *desc, uint32_t count);

/*
 * From now on polls of the queue find packets with this probability (0..1; 1: hot), drawn with 'seed'. Packets that wait in the ring are
 * removed or added as needed. Nobody may poll the queue meanwhile. The first poll of a cold queue is empty. Holds until the queue is set up
 * again. Returns -EINVAL, without a log line, if the value is no probability.
 */
int crossover_feed_set_queue_polls(struct crossover_rx_queue *rxq, double probability, uint64_t seed);

/* Counts frames handed to the application. */
void crossover_feed_count(struct crossover_rx_queue *rxq, struct rte_mbuf *const *pkts, uint16_t count);

/* Puts a packet into the ring of a cold queue, if a buffer is posted, and draws when the next one comes. Does nothing to a hot one. */
void crossover_feed_arrive(struct crossover_rx_queue *rxq);

/* Ends a poll that has taken 'count' packets. */
static inline void crossover_feed_polled(struct crossover_rx_queue *rxq, struct rte_mbuf *const *pkts,
                                         uint16_t count)
{
	if (count > 0)
		crossover_feed_count(rxq, pkts, count);
	if (unlikely(--rxq->queue_polls_left == 0))
		crossover_feed_arrive(rxq);
}

/*
 * crossover_external.c, feed=external: an agent plays the NIC of each port (wire.h). The receive functions and the driver side of a ring are
 * those of a wire, with one buffer per frame; the send function hands descriptors to the agent and takes them back.
 */

/* Makes the port's memzone if its pair is of this kind. */
int crossover_external_init(struct crossover_port *port, const char *port_name);
/* No agent may run. Does nothing to a port without a memzone. */
void crossover_external_release(struct crossover_port *port);

/* Returns -EINVAL for a number of descriptors that an agent cannot have. */
int crossover_external_check_size(const struct crossover_port *port, const char *kind, uint16_t queue_id,
                                  uint32_t size);

/* Shows configuration and carrier to the agent. The control lock is held. */
void crossover_external_publish(struct crossover_port *port, bool carrier);

/* Returns -EINVAL if an agent cannot write the buffers, which are posted. */
int crossover_external_check(const struct crossover_rx_queue *rxq);
/* Lets the agent use the ring. */
void crossover_external_open_rx(struct crossover_rx_queue *rxq);
void crossover_external_open_tx(struct crossover_tx_queue *txq);

/*
 * Shows a stop to the agent, and, after crossover_quiesce(), it has left. If it does not leave, the ring stays closed, because the agent may
 * leave later and would take the same epoch for a start. A later stop succeeds then. NULL: no agent.
 */
void crossover_external_close(struct wire_ring *ring);

/* Waits until the agent has left all closed rings of the port. Called by crossover_quiesce(). */
int crossover_external_quiesce(const struct crossover_port *port, uint64_t deadline_ns);

/* Sends what the TX ring has room for. The agent counts frames as sent when it reads them. */
uint16_t crossover_external_tx_burst(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts);

/* Returns how many descriptors the agent has not read. */
uint32_t crossover_external_unread(const struct crossover_tx_queue *txq);

/* Frees the mbufs of at most `most` descriptors that were read; returns how many. */
uint32_t crossover_external_reclaim(struct crossover_tx_queue *txq, uint32_t most);

/* Frees all mbufs of a closed ring. Frames that were not read count as errors. */
void crossover_external_flush(struct crossover_tx_queue *txq);

/*
 * crossover_corec.c, rx=corec: several lcores call rte_eth_rx_burst() on the same queue at once (corec_protocol.h). A poll differs from the
 * standard path in that every descriptor it takes gets its new buffer at once, from the poller's own mempool cache, and that a frame is one
 * descriptor: there is no RTE_ETH_RX_OFFLOAD_SCATTER. The NIC side is the same: it fills posted descriptors in order and knows one TAIL.
 */

uint16_t crossover_burst_corec(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts);
uint16_t crossover_burst_corec_described(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts);

/* Returns -EINVAL if a queue of this many descriptors cannot be in the mode. */
int crossover_corec_check_size(const struct crossover_port *port, uint16_t queue_id, uint32_t size);

/*
 * Puts a queue whose buffers are all posted into the mode, before the NIC side runs. Returns -EINVAL (number of descriptors, scattered frames
 * wanted) or -ENOMEM.
 */
int crossover_corec_init(struct crossover_rx_queue *rxq, const struct rte_eth_dev *dev);

/*
 * Stops it, when neither NIC side nor pollers run: its statistics go to the queue, and its position becomes that of the standard path, with
 * buffers in all descriptors. Polls find nothing. Does nothing to a queue that is not in the mode.
 */
void crossover_corec_release(struct crossover_rx_queue *rxq);

/* Takes it out of the mode after that; does nothing to a queue that is not in it. */
void crossover_corec_free(struct crossover_rx_queue *rxq);

/* Adds the counts of all consumers. */
void crossover_corec_count(const struct crossover_rx_queue *rxq, struct crossover_rx_counts *sum);

/* The next descriptor to be taken, and how many are posted from there on; a snapshot while others poll. */
void crossover_corec_place(const struct crossover_rx_queue *rxq, uint32_t *position, uint32_t *posted);

/* For a core that halts until the next descriptor is filled: which one that is, and, once its line is armed, whether it still is. */
uint32_t crossover_corec_halt_place(struct crossover_rx_queue *rxq);
bool crossover_corec_may_halt(const struct crossover_rx_queue *rxq, uint32_t place);

/* The counter of lost reservations that only this lcore writes. */
const uint64_t *crossover_corec_race_lost(const struct crossover_rx_queue *rxq, unsigned int lcore);

/*
 * crossover_buffer_pool.c: RX modes in which buffers are not posted where frames are delivered. Each RX queue is a ring of deliveries: the NIC side
 * writes handle and write-back word, the driver side clears the word and moves TAIL. Empty buffers lie in buffer pools (rte_ring):
 *
 *   shared   one pool for all RX queues of the port; the core that receives a frame puts a fresh buffer in its place
 *            (ShRing: Pismenny, Morrison, Tsafrir, OSDI'23: one ring of buffers for several cores).
 *   split    one pool per RX queue, which its core keeps full; the NIC side takes from that of the queue first, then from the others
 *            (rxBisect: Pismenny, Morrison, Tsafrir, OSDI'25; idpf's split queues have this form).
 *
 * Writers: senders write descriptors and HEAD, as always; the polling lcore clears write-back words and writes TAIL and `owed`. Several
 * senders take from a pool, and several cores give to a shared one; rte_ring's own compare-and-swap, acquire and release keep them apart. A
 * handle taken from a pool belongs to the sender until DD is set with release; the driver side's earlier writes to that buffer are visible
 * because the rte_ring's tail was read with acquire. Mode shared has as many buffers in circulation as were posted at the start: a sender
 * that took more than it found descriptors for puts them back, so buffers in the pool and frames not polled yet are together never more.
 *
 * A frame is one buffer: there is no RTE_ETH_RX_OFFLOAD_SCATTER. All RX queues have the same mempool, and frames are copied.
 */

#define CROSSOVER_BUFFER_POOL_MIN 64

static inline bool crossover_has_buffer_pool(const struct crossover_port *port)
{
	return port->rx_mode == CROSSOVER_RX_SHARED || port->rx_mode == CROSSOVER_RX_SPLIT;
}

uint16_t crossover_burst_supplied(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts);
uint16_t crossover_burst_supplied_described(void *queue, struct rte_mbuf **pkts, uint16_t nb_pkts);

/*
 * Puts a queue whose buffers are all posted into the mode, queue 0 first, before the NIC side runs. Returns -EINVAL (scattered frames wanted,
 * dma=swap, another mempool than queue 0's, fewer descriptors than the pool's buffers) or -ENOMEM.
 */
int crossover_buffer_pool_init(struct crossover_rx_queue *rxq, const struct rte_eth_dev *dev);

/* Takes it out again, with nothing posted, when neither NIC side nor pollers of any queue run. Does nothing if it is not in the mode. */
void crossover_buffer_pool_release(struct crossover_rx_queue *rxq);

/* Delivers 'count' (at most CROSSOVER_CHUNK) frames as crossover_dma_deliver() does with dma=copy. Returns how many were missed. */
uint32_t crossover_buffer_pool_deliver(struct crossover_tx_queue *txq, struct crossover_rx_queue *rxq,
                                       struct rte_mbuf *const *pkts, const uint64_t *tags, uint32_t count);

#endif
