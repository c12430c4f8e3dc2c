/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between a port with feed=external and the agent that plays its NIC, and nothing else. An agent fills the receive rings of
 * the port and reads its transmit rings: a thread (apps/gpu), later a GPU. docs/internals/wire.md explains it.
 *
 * The memzone "<port>_wire" (for example net_crossover0_a_wire) holds one struct wire_port. Addresses in it and in descriptors are those
 * of the process that has the port. All memory behind them is DPDK's, so it lies on hugepages unless EAL runs without.
 *
 * A ring is a circle of descriptors of 16 bytes, four per cache line. TAIL and HEAD count descriptors since the ring's epoch began and wrap
 * at 2^32; count k belongs to descriptor k modulo size, a power of two. The driver moves TAIL, the agent moves HEAD.
 *
 * Receive ring (the agent fills it):
 * - Free are TAIL - HEAD descriptors, and nothing else says so: there is no generation bit. Read TAIL, then a fence, then the descriptors.
 * - A free descriptor holds the handle of a buffer. The frame goes to handle + buffer_offset, a multiple of 16 bytes, in one buffer.
 * - Store the frame, then a fence, then `word` with WIRE_DD: DD last. `buffer` keeps its value, so that all 16 bytes may be one store.
 * - Fill descriptors in order. Those of a cache line that are filled together are written together: a whole line where it is free.
 * - Frames for a ring without room, or with epoch 0, are missed. Frames longer than frame_bytes_max are oversize. Both are only counted.
 *
 * Transmit ring (the agent reads it):
 * - TAIL - HEAD descriptors are to be sent: `buffer` is the address of the data, `word` has their number and, on a frame's last, WIRE_EOP.
 * - After the data was read, store HEAD: the driver then reuses the buffers.
 *
 * Start and stop, for each ring:
 * - `epoch` is 0 while the ring is stopped. A start gives it a number that the port did not use before.
 * - Before it touches a ring, the agent stores the epoch to `busy`, then a full fence, then reads `epoch` again. If it differs, the agent
 *   stores 0 to `busy` and touches nothing. HEAD begins at `head`, which is 0 for a new epoch.
 * - While it is busy, the agent reads `epoch` at least every 100 ms. If it has changed, the agent stores HEAD to `head`, then a fence behind
 *   all its stores, then 0 to `busy`. The driver waits for that before it takes buffers back. An agent also does so when it ends.
 * - One agent per ring. It ends before the port is closed.
 *
 * Counters only grow. An agent that begins continues from the values that it finds.
 */
#ifndef WIRE_H
#define WIRE_H

#include <stdint.h>

#define WIRE_ABI        1
#define WIRE_MEMZONE    "%s_wire" /* of the port's name */
#define WIRE_RINGS_MAX  1024
#define WIRE_RETA_MAX   1024
#define WIRE_KEY_BYTES  40
#define WIRE_MAC_BYTES  6
#define WIRE_LINE_BYTES 64

/* `word`: bits 0-15 bytes in this buffer, and the following. Zero: nothing is known. */
#define WIRE_DD         (UINT64_C(1) << 16) /* filled; receive rings only */
#define WIRE_EOP        (UINT64_C(1) << 17) /* last buffer of a frame */
#define WIRE_HASH       (UINT64_C(1) << 18) /* bits 32-63 are the RSS hash */
#define WIRE_L4_GOOD    (UINT64_C(1) << 19) /* the checksum of layer 4 is good */
#define WIRE_TYPE_SHIFT 20                  /* bits 20-31: RTE_PTYPE_* of layers 2 to 4 */
#define WIRE_HASH_SHIFT 32

#define WIRE_TYPE_IPV4_UDP UINT64_C(0x211) /* RTE_PTYPE_L2_ETHER | L3_IPV4 | L4_UDP */

struct wire_descriptor {
	uint64_t buffer;
	uint64_t word;
};

struct wire_ring {
	/* Written by the driver, all but `epoch` while the ring is stopped. */
	uint64_t descriptors;   /* address of the first; a multiple of 64 */
	uint64_t tail;          /* address of TAIL, a uint32_t in a line that the agent only reads */
	uint32_t size;          /* descriptors: 64 to 4096, a power of two */
	uint32_t buffer_offset; /* receive: bytes from a handle to the data */
	uint32_t buffer_bytes;  /* receive: room for data, a multiple of 16 */
	uint32_t epoch;
	/* Written by the agent; the driver sets `head` to 0 before each epoch. */
	uint32_t busy __attribute__((aligned(WIRE_LINE_BYTES)));
	uint32_t head;     /* HEAD; in a receive ring only while the agent is not busy */
	uint64_t packets;  /* delivered or read */
	uint64_t bytes;    /* of these, without FCS */
	uint64_t missed;   /* receive: no room, or stopped */
	uint64_t oversize; /* receive: longer than frame_bytes_max */
};

/* RSS, MTU and link as the agent has to apply them. `configuration` is odd during a change, and differs after each. */
struct wire_port {
	uint32_t abi;
	uint32_t configuration;
	uint32_t running; /* 1: started and up; otherwise no frame is on the wire */
	uint32_t epoch;   /* the last that a ring was given */
	uint32_t rx_rings, tx_rings;
	uint32_t frame_bytes_max;    /* without FCS */
	uint8_t mac[WIRE_MAC_BYTES]; /* frames are addressed to it; nothing else is filtered */
	uint8_t hash_bytes;          /* of addresses and ports of UDP in IPv4 that RSS hashes: 0, 8 or 12 */
	uint8_t hash_wanted;         /* 1: set WIRE_HASH and the hash */
	uint8_t rss_key[WIRE_KEY_BYTES];
	uint32_t reta_mask;           /* a hash goes to ring reta[hash & reta_mask]; no hash: to ring 0 */
	uint16_t reta[WIRE_RETA_MAX]; /* below rx_rings */
	struct wire_ring rx[WIRE_RINGS_MAX]; /* the driver receives, the agent fills */
	struct wire_ring tx[WIRE_RINGS_MAX]; /* the driver sends, the agent reads */
};

#endif
