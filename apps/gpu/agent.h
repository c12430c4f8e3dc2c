/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference agent of wire.h: a generator that fills receive rings and a receiver that reads transmit rings. A thread calls
 * agent_generate(), agent_receive() or agent_run(); all return when the word at `stop` is not 0. A trial with a warm-up and a window calls the
 * parts instead: agent_begin() to agent_end(). For C and, with AGENT_ON_GPU, for clang's CUDA.
 *
 * Frames are those of packets.h without a UDP checksum: sequence numbers of the sender at byte 44, the departure in ticks after the begin and
 * the flow at byte 52. From byte 64 on, every 16 bytes hold the sequence number and their place, so that a reader sees whether the whole
 * frame is there.
 *
 * On a GPU every lane of a block has its own generator and rings, which stay alike, and all share flows. A receiver has one lane.
 */
#ifndef AGENT_H
#define AGENT_H

#include "target.h"
#include "wire.h"

#define AGENT_BATCH_MAX       256 /* at 9018 bytes a thread needs 0.5 ms for it */
#define AGENT_FRAME_BYTES_MIN 60  /* without FCS */
#define AGENT_FRAME_BYTES_MAX 9018
#define AGENT_FLOWS_MAX       65536

struct agent_flow {
	uint32_t source, destination; /* set before the begin, in host byte order */
	uint16_t source_port;
	/* The rest follows from these and the port's configuration. */
	uint16_t ring;
	uint32_t in_turn; /* number of the flow in this place, when all are sorted by ring */
	uint64_t word;    /* for the descriptor, without the number of bytes */
	uint64_t head[8]; /* first 64 bytes of its frames, without stamp */
};

/* State of a ring on the side of the agent. */
struct agent_ring {
	uint32_t epoch; /* 0: not busy */
	uint32_t head;
	uint32_t tail;   /* as last read */
	uint32_t inside; /* transmit: the next descriptor continues a frame, 2: one that was accepted */
	uint32_t begin;  /* receive: first flow of the ring among the sorted ones */
	uint32_t end;
	uint64_t packets, bytes, missed, oversize;
};

/* Counts of values in the layout of an HdrHistogram from 1 on with 3 digits (apps/lib/histogram.h). */
struct agent_histogram {
	uint64_t *counts; /* NULL: nothing is recorded */
	uint32_t nb_counts;
	uint64_t total;
	uint64_t refused; /* values beyond the counts */
	uint64_t min;     /* UINT64_MAX at the begin */
	uint64_t max;
	uint64_t sum;
};

/* Checks and counts the frames of one generator at their reader. */
struct agent_check {
	uint16_t mark;
	uint32_t nb_flows;
	uint64_t *next; /* per flow: the lowest number that may follow */
	/* A bit per number, for the latest 64 * nb_seen (a power of two) of them; NULL: copies count as reordered. */
	uint64_t *seen;
	uint32_t nb_seen;
	uint64_t end; /* state: the highest number seen, plus 1 */
	uint64_t packets;
	uint64_t bytes;      /* of the packets that are of this generator */
	uint64_t unmarked;   /* not of this generator */
	uint64_t reordered;  /* a number that was passed already by its flow */
	uint64_t overtaken;  /* a number that was passed already by any flow */
	uint64_t duplicated; /* a number that was seen already, and nothing else */
	uint64_t too_old;    /* a number that `seen` has forgotten */
	uint64_t torn;       /* the end of the frame does not belong to its begin */
};

struct agent_generator {
	/* Set before the begin; what is 0 or NULL afterwards may stay so. */
	struct wire_port *port;
	struct agent_ring *rings; /* as many as it serves, or WIRE_RINGS_MAX for all; zeros */
	struct agent_flow *flows; /* nb_flows */
	const uint32_t *stop;     /* ends it once not 0; NULL: only `frames` does */
	uint64_t frames;          /* ends after so many; 0: only `stop` does */
	/* Ticks from frame to frame, 48.16 fixed point; 0: as fast as rings take them. */
	uint64_t interval_q16;
	/* In place of the interval: when each of nb_times frames is due, over and over after a period; NULL: none. */
	const uint64_t *times_q16;
	uint64_t period_q16;
	uint32_t nb_times;
	/* 1: no schedule; frames leave an interval apart or more, and full rings miss them. */
	uint32_t saturates;
	uint32_t silent;      /* 1: no frame is due */
	uint64_t late_max;    /* ticks; frames that are later are not sent */
	uint32_t nb_flows;    /* 1 to AGENT_FLOWS_MAX */
	uint32_t frame_bytes; /* AGENT_FRAME_BYTES_MIN to _MAX, without FCS */
	uint32_t batch;       /* frames written together, 1 to AGENT_BATCH_MAX */
	uint32_t ring_first;  /* serves this ring and the following, `nb_rings` of them; 0: all */
	uint32_t nb_rings;
	uint32_t by_ring; /* 1: flow i goes to ring i modulo all rings; 0: RSS decides */
	/* The flows of nb_list frames in their order, over and over, to all rings; NULL: in turn, sorted by ring. */
	const uint16_t *list;
	uint32_t nb_list;
	uint16_t mark;
	/* The negative control: DD is stored before the frame, so that its reader finds what was in the buffer before. */
	uint16_t descriptors_first;
	uint64_t ns_per_tick_q32; /* for histograms */
	uint64_t ticks_per_us;    /* for gaps; 0: they are not counted */
	/* Results, valid after the end. */
	uint64_t numbered; /* sequence numbers given: delivered, missed and oversize frames */
	uint64_t unsent;   /* later than late_max */
	uint64_t gaps_over_1us, gaps_over_10us, gaps_over_100us; /* from step to step */
	uint64_t ticks_over_100us;                               /* total length of the gaps of that class */
	uint64_t longest_gap;                                    /* ticks */
	uint64_t *bursts; /* steps by the number of frames, AGENT_BATCH_MAX + 1; NULL: not counted */
	struct agent_histogram lateness, interdeparture; /* ns, while `recording` */
	uint32_t recording;
	/* State. */
	uint32_t configuration; /* that the flows fit; odd: none */
	uint32_t nb_own;        /* flows of the rings that are served */
	uint32_t turn;          /* the next of them */
	uint32_t frame_bytes_max;
	uint32_t rings_end; /* behind the last that was ever served */
	uint64_t begin;
	uint64_t limit_q16; /* frames due from here on are not sent */
	uint64_t due_q16;   /* of the next frame, after `begin`; with times: of this round of them */
	uint32_t place;     /* of the next frame among the times */
	int64_t now;        /* of the latest step, after `begin` */
	uint64_t last_step; /* clock; 0: none */
	uint64_t last_gap;  /* ticks from the step before */
	uint64_t last_scan; /* clock, when stops of rings without frames were looked for */
	uint64_t last_departure;
};

struct agent_receiver {
	struct wire_port *port;
	struct agent_ring *rings;
	const uint32_t *stop;
	uint32_t batch; /* descriptors read together */
	uint32_t ring_first, nb_rings;
	uint32_t blind;                    /* 1: frames are taken from the rings and not looked at */
	uint64_t begin;                    /* clock; departures of frames count from here */
	uint64_t window_begin, window_end; /* ticks; latencies of frames due in between are recorded */
	uint64_t ns_per_tick_q32;
	struct agent_check check;
	struct agent_histogram from_intended, from_sent; /* latency, ns */
	uint32_t rings_end;                              /* state: behind the last that was ever served */
};

/* Returns NULL, or what is wrong. */
const char *agent_generator_check(const struct agent_generator *generator);

/* Without carrier, it and its schedule pause. */
AGENT_CODE void agent_generate(struct agent_generator *generator);

/* Reads until `stop` is not 0 and, then, the rings are empty. */
AGENT_CODE void agent_receive(struct agent_receiver *receiver);

/* Does both in turn, until the receiver's `stop` is not 0. */
AGENT_CODE void agent_run(struct agent_generator *generator, struct agent_receiver *receiver);

/*
 * The parts of a trial, in their order. agent_begin() waits for nothing: the schedule begins at the clock value `begin`, which is best in the
 * future, and the flows follow the port's configuration already if agent_prepare() was called. `receiver` may be NULL. The caller may read
 * results between two calls.
 */
AGENT_CODE void agent_prepare(struct agent_generator *generator);
AGENT_CODE void agent_begin(struct agent_generator *generator, struct agent_receiver *receiver,
                            uint64_t begin);

/*
 * Sends the frames that are due before `limit` (ticks after the begin), and reads what comes back. Returns 0 if the word at the generator's `stop`
 * ended it; frames that were due by then are unsent.
 */
AGENT_CODE uint32_t agent_send_until(struct agent_generator *generator, struct agent_receiver *receiver,
                                     uint64_t limit);

/* Reads a batch of each ring. Returns the number of descriptors. */
AGENT_CODE uint32_t agent_read(struct agent_receiver *receiver);
AGENT_CODE void agent_end(struct agent_generator *generator, struct agent_receiver *receiver);

/* Looks at a frame whose first `bytes` lie at `frame`, a multiple of 2. */
AGENT_CODE void agent_check_frame(struct agent_check *check, const void *frame, uint32_t bytes);

#endif
