/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A packet trace (pcap or pcapng, read by libpcap) as a play list: flow, size, and time since the packet before. Nothing else
 * of it is sent: frames are the generator's own, with a stamp.
 *
 * The trace is read once, packet by packet, into two unnamed files (8 bytes per packet) that are mapped for reading. So memory
 * does not grow with the trace, and what a trial does not reach is never loaded. The files lie in TMPDIR, or /var/tmp, which
 * should be on a disk.
 *
 * A flow is identified by protocol, addresses and ports (later fragments and other protocols: ports 0; not IP: EtherType).
 * Flows are numbered in the order of their first packets. Those beyond PACKET_FLOWS_MAX share the numbers of earlier ones, at
 * random.
 */
#ifndef GEN_TRACE_H
#define GEN_TRACE_H

#include <stdint.h>

#include "node_error.h"
#include "traffic.h"

#define GEN_TRACE_PACKETS_MAX 4000000000u /* for an index of 32 bits, with room */

struct gen_trace {
	const struct gen_entry
	        *entries; /* `packets` entries, then GEN_BURST_MAX more: the first ones again */
	const uint32_t *
	        gaps_ns; /* before each packet; before the first: the mean, because the trace repeats after its end */
	uint32_t packets;
	uint32_t flows;
	uint16_t *frame_bytes; /* by gen_entry.size; FCS included */
	unsigned int sizes;
	uint32_t largest_bytes;
	double mean_bytes;
	uint64_t duration_ns; /* of one repetition, with the gap before the first packet */
	uint64_t crowded;     /* packets of flows that share their number */
	uint64_t padded;      /* packets below 64 bytes, padded to that */
	uint64_t cut;         /* packets above what the port may send, cut to that */
	uint64_t shortened;   /* gaps of more than 4.29 s, shortened to that */
	uint64_t backward; /* packets with a time before that of their predecessor; sent together with it */
};

/*
 * Read the trace at `path` with frames of at most `frame_max` bytes, FCS included. The last trace is kept and is not read again
 * while the file is unchanged. It is valid until another is read, or gen_trace_close(). Returns 0, or -1 with err (where is
 * "gen.trace").
 */
int gen_trace_open(const char *path, uint32_t frame_max, const struct gen_trace **trace,
                   struct node_error *err);

/* Close files, free memory. */
void gen_trace_close(void);

#endif
