/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latencies of a sample of frames by the clock of the NIC: hardware stamps when they leave and come back (rte_eth_timesync_*()
 * of ethdev).
 *
 * Drivers stamp only PTP event messages (IEEE 1588), so the samples are frames of their own: Sync messages over Ethernet
 * (EtherType 0x88F7, annex F), 64 bytes, to the MAC address of all other frames. No other counter of the generator contains
 * them. One is out at a time: the next waits until it is back, 100 ms at most, so that slow frames are sampled as often as
 * quick ones. Both stamps are read when it is back, which takes the lcore microseconds (`longest_read`).
 *
 * The main lcore calls all functions except gen_stamps_send() and gen_stamps_take(), which the generator's first lcore calls.
 */
#ifndef GEN_STAMPS_H
#define GEN_STAMPS_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include <rte_ether.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "histogram.h"
#include "node_error.h"
#include "trial.h"

#define GEN_STAMPS_FRAME_BYTES 60 /* without FCS */

struct gen_stamps {
	uint64_t next_tsc; /* time of the next frame; UINT64_MAX: never */

	/* set by gen_stamps_prepare() and gen_stamps_begin(), constant while the loop runs */
	uint64_t every_ns; /* 0: none are taken */
	uint64_t every;    /* TSC cycles */
	uint64_t patience; /* TSC cycles after which an outstanding frame is lost */
	uint64_t tsc_hz;
	uint16_t tx_port;
	uint16_t tx_queue;
	uint16_t rx_port;
	struct rte_mempool *pool;
	uint8_t frame[GEN_STAMPS_FRAME_BYTES];
	char absent[160];  /* why no stamps can be taken; "": they can */
	uint64_t apart_ns; /* largest difference of the two ports' clocks */

	/* of the loop */
	uint64_t sent_tsc; /* of the outstanding frame */
	uint16_t sequence; /* its number */
	bool is_out;

	/* results */
	uint64_t sent;
	uint64_t back;
	uint64_t late;          /* came back after 100 ms, after another was sent; not in `back` */
	uint64_t unstamped;     /* came back, but the driver did not have both stamps */
	uint64_t implausible;   /* longer by the NIC's clock than from before sending to after receiving */
	uint64_t last_left_ns;  /* 0: none yet */
	uint64_t clock_step_ns; /* greatest common divisor of all times; 0: none yet */
	uint64_t longest_read;  /* TSC cycles of reading both stamps */
	struct histogram nic_ns;
	struct histogram software_ns; /* the same frames by latency_ns.from_sent, as other frames have it */
};

/* Prepare a frame every `every_ns` (0: none). Returns 0, or -1 with err. */
int gen_stamps_prepare(struct gen_stamps *stamps, uint64_t every_ns, struct rte_mempool *pool,
                       struct node_error *err);

/* Ask both ports (NO_PORT: does not receive) whether they can stamp; `stamps` says why not. Clears the results. */
void gen_stamps_begin(struct gen_stamps *stamps, uint16_t tx_port, uint16_t rx_port,
                      const struct trial *trial);

/* Set the addresses of the frames; after gen_stamps_begin(). */
void gen_stamps_address(struct gen_stamps *stamps, const struct rte_ether_addr *source,
                        const struct rte_ether_addr *destination);

/* Send one frame; called once next_tsc has come. */
void gen_stamps_send(struct gen_stamps *stamps, uint64_t now);

/* Return whether a received frame is one of these; then it was counted. `arrival`: TSC. */
bool gen_stamps_take(struct gen_stamps *stamps, const struct rte_mbuf *mbuf, uint64_t arrival);

/* Return the object `nic_stamps` of docs/internals/node-protocol.md, a new reference. */
json_t *gen_stamps_report(const struct gen_stamps *stamps);

void gen_stamps_free(struct gen_stamps *stamps);

#endif
