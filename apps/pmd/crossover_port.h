/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of a pair of ports. All of it lies in memory that the primary and secondary processes share, so it holds no function pointers: the
 * receive and send functions choose by data.
 *
 * Writers: the lcore that sends on a TX queue writes its fields, the peer's senders write the NIC side of an RX ring
 * (crossover_ring.h), the polling lcore writes the driver side, and control threads write everything else under crossover_pair.control.
 * A reset of statistics stores a baseline beside the counter; it never writes a counter that another core owns.
 */
#ifndef CROSSOVER_PORT_H
#define CROSSOVER_PORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_ether.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "crossover_ring.h"

#define CROSSOVER_MAX_QUEUES 1024 /* RTE_MAX_QUEUES_PER_PORT of the distributions' builds */
/*
 * Entries of the RETA: 512, the limit of testpmd's commands and of DPDK's constants, and 1024 for a port that was configured with more RX queues
 * than that, so that every queue can be reached.
 */
#define CROSSOVER_RETA_SIZE     512
#define CROSSOVER_RETA_SIZE_MAX 1024
#define CROSSOVER_MAX_MACS      64
#define CROSSOVER_MAX_MULTICAST 64
#define CROSSOVER_MAX_MTU       9000
/* Ethernet header and one VLAN tag; an mbuf carries no FCS. */
#define CROSSOVER_L2_BYTES     (RTE_ETHER_HDR_LEN + 4)
#define CROSSOVER_MIN_FRAME    RTE_ETHER_HDR_LEN
#define CROSSOVER_CHUNK        32 /* frames whose DD bits are written together; buffers refilled together */
#define CROSSOVER_DEFAULT_RING 512

/*
 * Left free after an array that a core walks along. The prefetcher runs beyond the end once per wrap, and would take the lines there from the core
 * whose queue lies there.
 */
#define CROSSOVER_APART_BYTES 1024

_Static_assert(CROSSOVER_MAX_QUEUES >= RTE_MAX_QUEUES_PER_PORT, "ethdev allows more queues than the driver");

#define CROSSOVER_RSS_KEY_BYTES   40
#define CROSSOVER_RSS_INPUT_BYTES 36 /* IPv6: two addresses and two ports */

/*
 * Toeplitz hash (Microsoft RSS specification) over the addresses and ports of a frame. It is linear over GF(2): the hash of the input is the
 * XOR of the hashes of its 4-bit pieces. With a table of 16 entries per piece (4.5 KiB for the longest input) the hash of an IPv4
 * 4-tuple costs 24 loads, all within L1.
 */
struct crossover_hash {
	uint8_t key[CROSSOVER_RSS_KEY_BYTES];
	uint64_t types; /* RTE_ETH_RSS_* */
	uint32_t table[2 * CROSSOVER_RSS_INPUT_BYTES][16];
};

/* Flow types that can be hashed: RTE_ETH_RSS_*. */
uint64_t crossover_rss_types(void);

extern const uint8_t crossover_default_rss_key[CROSSOVER_RSS_KEY_BYTES];

/* Fills 'hash' for a key of CROSSOVER_RSS_KEY_BYTES and a set of RTE_ETH_RSS_* types. */
void crossover_hash_init(struct crossover_hash *hash, const uint8_t *key, uint64_t types);

/*
 * Hashes the frame whose first 'length' bytes lie at 'frame'. Looks behind at most two VLAN tags, and understands IPv4 options and fragments;
 * behind IPv6 extension headers it does not look, and hashes the addresses alone. Returns false if no flow type that is switched on fits; such
 * frames go to queue 0.
 */
bool crossover_hash_frame(const struct crossover_hash *hash, const uint8_t *frame, uint32_t length,
                          uint32_t *value);

enum crossover_dma { CROSSOVER_DMA_COPY, CROSSOVER_DMA_SWAP };
enum crossover_feed { CROSSOVER_FEED_WIRE, CROSSOVER_FEED_INFINITE, CROSSOVER_FEED_EXTERNAL };
enum crossover_rx_mode {
	CROSSOVER_RX_STANDARD,
	CROSSOVER_RX_COREC,
	CROSSOVER_RX_SHARED, /* see crossover.h */
	CROSSOVER_RX_SPLIT
};

struct crossover_options {
	enum crossover_dma dma;
	enum crossover_feed feed;
	enum crossover_rx_mode rx;     /* of both ports at first */
	bool keeps_b;                  /* port b is not for the program, but for a secondary process */
	uint16_t frame_bytes;          /* with FCS, as RFC 2544 counts; feed=infinite */
	uint16_t flows;                /* feed=infinite */
	struct rte_ether_addr macs[2]; /* of port a and b; all zero: a random one */
};

/* How frames find their RX queue. Stored in crossover_port.gate; senders load it once per burst. */
enum crossover_gate {
	CROSSOVER_GATE_DOWN,     /* no carrier: nothing is sent */
	CROSSOVER_GATE_DIRECT,   /* all frames go to queue 0, unread */
	CROSSOVER_GATE_CLASSIFY, /* MAC filter, RSS, types and checksums */
	CROSSOVER_GATE_VOID,   /* feed=infinite: sent frames are counted and dropped; feed=external: unused */
	CROSSOVER_GATE_NOTIFY, /* as CLASSIFY, then rings the doorbells of the queues */
	CROSSOVER_GATE_NOTIFY_DIRECT, /* as DIRECT, then rings the doorbell of queue 0 */
	CROSSOVER_GATE_BUFFER_POOL,   /* as CLASSIFY; buffers come from pools, see crossover.h */
};

/* Counters of an RX queue, collected from their owners. */
struct crossover_rx_counts {
	uint64_t packets;
	uint64_t bytes;
	uint64_t missed;          /* no descriptor was posted, or the queue was stopped */
	uint64_t nombuf;          /* buffers requested from the mempool and not received */
	uint64_t refill_failures; /* polls whose refill failed */
	uint64_t flushed;         /* frames that a stop dropped before they were polled */
	uint64_t race_lost;       /* rx=corec: polls that lost their reservation to another core */
	uint64_t oversize;        /* feed=external: frames longer than the MTU allows */
};

struct crossover_tx_counts {
	uint64_t packets; /* on the wire, whatever happened to them later */
	uint64_t bytes;
	uint64_t errors;  /* frames that no NIC would put on a wire */
	uint64_t swapped; /* dma=swap: buffers that changed hands; the others were copied */
	/* Frames that reached no ring, by reason; the peer's statistics show these. */
	uint64_t peer_filtered; /* MAC filter */
	uint64_t peer_oversize; /* longer than the peer's MTU allows */
	uint64_t peer_missed;   /* the RX queue is not set up */
	/* Timed chunks, see crossover_wire_init(). */
	uint64_t wire_cycles;
	uint64_t wire_frames;
	uint64_t wire_interrupted; /* timed chunks left out because the core was preempted meanwhile */
};

struct crossover_port;
struct crossover_corec;
struct rte_memzone;
struct crossover_buffer_pool;
struct qwait_doorbell;

struct crossover_rx_queue {
	struct crossover_rx_ring ring;
	/* Driver side: one line that every poll touches. */
	alignas(CROSSOVER_LINE_BYTES) struct crossover_rx_desc *desc;
	uint32_t position;    /* next descriptor to look at */
	uint32_t unposted;    /* descriptors taken back and not posted again */
	uint32_t free_thresh; /* post again from this many */
	uint32_t size;
	uint64_t rearm; /* mbuf's data_off, refcnt, nb_segs, port in one word */
	struct rte_mempool *pool;
	uint64_t refill_failures; /* polls whose refill failed */
	uint32_t tail;            /* TAIL as last written */
	uint16_t port_id;
	uint8_t swap;
	uint8_t infinite;
	uint8_t started;
	uint8_t cold;              /* feed=infinite: a poll finds a packet by chance, see crossover.h */
	uint16_t data_offset;      /* bytes from an mbuf to its data; 0: not the same for all */
	uint32_t queue_polls_left; /* feed=infinite: until a packet is put into a cold ring */
	/* Second line: rarely touched. */
	alignas(CROSSOVER_LINE_BYTES) struct crossover_port *port;
	struct crossover_corec *corec; /* NULL: the standard path; only changed before the queue starts */
	uint64_t nombuf;               /* buffers requested and not received */
	uint64_t flushed;              /* frames that a stop dropped before they were polled */
	uint64_t fed_packets;          /* feed=infinite: frames handed out */
	uint64_t fed_bytes;
	struct crossover_template *templates; /* feed=infinite */
	uint16_t nb_templates;
	uint16_t next_template;
	uint16_t queue_id;
	uint16_t buffer_bytes;
	double probability;      /* cold: that a poll finds a packet */
	double gap_scale;        /* cold: 1 / ln(1 - probability) */
	uint64_t random_state;   /* cold */
	uint64_t carried_missed; /* by TX queues of the peer that were released */
	uint64_t race_lost;      /* before the last stop */
	struct crossover_buffer_pool
	        *buffer_pool;   /* NULL: buffers are posted; only changed while the queue is stopped */
	struct wire_ring *wire; /* feed=external: what the agent sees of this queue; otherwise NULL */
	struct crossover_rx_counts baseline;
	struct rte_eth_rxconf conf;
	struct crossover_rx_desc descriptors[] __rte_aligned(CROSSOVER_LINE_BYTES);
};

struct crossover_tx_queue {
	alignas(CROSSOVER_LINE_BYTES) struct crossover_port *peer;
	struct rte_mbuf **sent; /* frames that are on the other side and not freed yet: this ring */
	uint64_t *missed;       /* by RX queue of the peer: no descriptor was posted, or it was stopped */
	uint32_t size;
	uint32_t position;    /* next entry to write */
	uint32_t pending;     /* entries not freed yet */
	uint32_t free_thresh; /* free when fewer entries than this are free */
	uint32_t free_batch;
	uint32_t busy;     /* 1 inside a burst; crossover_quiesce() waits for 0 */
	uint32_t wire_due; /* chunks until one is timed */
	uint32_t chained;  /* not 0: a frame of several segments was sent since mbufs were last freed */
	uint8_t started;
	uint8_t fast_free; /* RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE */
	uint8_t shared; /* other TX queues of the port are started: reserve descriptors, but in a ring of one's own */
	uint8_t swap;
	uint16_t sender; /* number + 1, as in crossover_rx_nic.sender */
	alignas(CROSSOVER_LINE_BYTES) struct crossover_tx_counts counts;
	/* Rarely touched. */
	uint32_t wire_draw;    /* state of the random numbers */
	uint32_t stamp_cycles; /* cost of the two time stamps around a chunk */
	uint64_t interruption_cycles;
	struct crossover_tx_counts baseline;
	struct crossover_port *port;
	uint16_t queue_id;
	struct rte_eth_txconf conf;
	/* feed=external: `sent` has an entry per descriptor. */
	struct wire_ring *wire;
	struct wire_descriptor *descriptors;
	alignas(CROSSOVER_LINE_BYTES) uint32_t tail; /* TAIL, read by the agent */
	struct rte_mbuf *entries[] __rte_aligned(CROSSOVER_LINE_BYTES);
};

_Static_assert(offsetof(struct crossover_tx_queue, counts) == CROSSOVER_LINE_BYTES,
               "a burst's state is one line");
_Static_assert(offsetof(struct crossover_rx_queue, port) - offsetof(struct crossover_rx_queue, desc) ==
                       CROSSOVER_LINE_BYTES,
               "a poll's state is one line");
_Static_assert(offsetof(struct crossover_rx_queue, ring) == 0, "the ring can be found from the queue");

struct crossover_pair;

struct crossover_port {
	/* Read by the peer's senders on every burst, written by control threads only. */
	alignas(CROSSOVER_LINE_BYTES) uint32_t gate; /* enum crossover_gate */
	uint32_t full_fence;      /* 1: senders fence; some process cannot be reached by membarrier(2) */
	uint32_t max_frame_bytes; /* as in the mbuf, without FCS */
	uint32_t promiscuous;
	uint32_t allmulticast;
	uint32_t hashing; /* RSS spreads frames, or the hash is wanted in the mbuf */
	uint32_t report_hash;
	uint32_t reta_mask;   /* number of RETA entries - 1 */
	uint32_t active_hash; /* which of the two hash states is in use */
	uint32_t described;   /* types or checksums are wanted in the mbuf */
	uint32_t types;       /* RTE_PTYPE_* bits that the program wants, layers 2 to 4 */
	uint32_t checks;      /* RTE_ETH_RX_OFFLOAD_*_CKSUM that are on */
	uint32_t notifies;    /* 1: senders ring */
	struct qwait_doorbell
	        *bells; /* of RX queue q the one at q % nb_bells; stays until no sender can use it */
	uint16_t nb_bells;
	struct crossover_rx_queue *rx_queues[CROSSOVER_MAX_QUEUES]; /* NULL: frames for it are missed */
	uint16_t reta[CROSSOVER_RETA_SIZE_MAX];
	struct crossover_hash hash[2];        /* the idle one is rewritten, then the two are swapped */
	uint64_t unicast[CROSSOVER_MAX_MACS]; /* addresses as numbers, 0: free */
	uint64_t multicast[CROSSOVER_MAX_MULTICAST];
	/* Control state. */
	alignas(CROSSOVER_LINE_BYTES) struct crossover_port *peer;
	struct crossover_pair *pair;
	struct wire_port *wire; /* feed=external; otherwise NULL */
	const struct rte_memzone *wire_zone;
	struct crossover_tx_queue *tx_queues[CROSSOVER_MAX_QUEUES];
	uint16_t nb_rx_queues;
	uint16_t nb_tx_queues;
	uint16_t port_id;
	uint8_t attached; /* the ethdev exists */
	uint8_t started;
	uint8_t admin_down; /* rte_eth_dev_set_link_down() */
	uint8_t rss_on;
	uint8_t types_set;    /* by rte_eth_dev_set_ptypes(), which has precedence */
	uint8_t rx_mode;      /* enum crossover_rx_mode: of queues that start from now on */
	uint16_t buffer_pool; /* buffers of a pool, in the modes that have one */
	struct crossover_tx_counts
	        carried; /* peer_* counts of the peer's TX queues that were released since the reset */
	struct rte_ether_addr mac_addrs[CROSSOVER_MAX_MACS];
};

struct crossover_pair {
	pthread_mutex_t control; /* robust, process-shared */
	struct crossover_options options;
	int socket_id;
	struct crossover_port ports[2];
};

static inline uint64_t crossover_mac_number(const struct rte_ether_addr *mac)
{
	uint64_t number = 0;

	for (unsigned int i = 0; i < RTE_ETHER_ADDR_LEN; i++)
		number |= (uint64_t)mac->addr_bytes[i] << (8 * i);
	return number;
}

#endif
