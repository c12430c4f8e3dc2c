/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference agent of wire.h: a generator that fills receive rings and a receiver that reads transmit rings. A thread calls
 * agent_generate(), agent_receive() or agent_run(); all return when the word at `stop` is not 0. For C and, with AGENT_ON_GPU, for clang's CUDA.
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
	uint32_t inside; /* transmit: the next descriptor continues a frame */
	uint32_t begin;  /* receive: first flow of the ring among the sorted ones */
	uint32_t end;
	uint64_t packets, bytes, missed, oversize;
};

/* Checks and counts the frames of one generator at their reader. */
struct agent_check {
	uint16_t mark;
	uint32_t nb_flows;
	uint64_t *next; /* per flow: the lowest number that may follow */
	uint64_t packets;
	uint64_t unmarked;  /* not of this generator */
	uint64_t reordered; /* a number that was passed already */
	uint64_t torn;      /* the end of the frame does not belong to its begin */
};

struct agent_generator {
	/* Set before the begin; what is 0 or NULL afterwards may stay so. */
	struct wire_port *port;
	struct agent_ring *rings; /* as many as it serves, or WIRE_RINGS_MAX for all; zeros */
	struct agent_flow *flows; /* nb_flows */
	const uint32_t *stop;     /* ends it once not 0; NULL: only `frames` does */
	uint64_t frames;          /* ends after so many; 0: only `stop` does */
	uint64_t
	        interval_q16; /* ticks from frame to frame, 48.16 fixed point; 0: as fast as rings take them */
	uint64_t late_max;    /* ticks; frames that are later are not sent */
	uint32_t nb_flows;    /* 1 to AGENT_FLOWS_MAX */
	uint32_t frame_bytes; /* AGENT_FRAME_BYTES_MIN to _MAX, without FCS */
	uint32_t batch;       /* frames written together, 1 to AGENT_BATCH_MAX */
	uint32_t ring_first;  /* serves this ring and the following, `nb_rings` of them; 0: all */
	uint32_t nb_rings;
	uint32_t by_ring; /* 1: flow i goes to ring i modulo all rings; 0: RSS decides */
	uint16_t mark;
	/* The negative control: DD is stored before the frame, so that its reader finds what was in the buffer before. */
	uint16_t descriptors_first;
	/* Results, valid after the end. */
	uint64_t numbered; /* sequence numbers given: delivered, missed and oversize frames */
	uint64_t unsent;   /* later than late_max */
	/* State. */
	uint32_t configuration; /* that the flows fit; odd: none */
	uint32_t nb_own;        /* flows of the rings that are served */
	uint32_t turn;          /* the next of them */
	uint32_t steps;
	uint32_t frame_bytes_max;
	uint32_t rings_end; /* behind the last that was ever served */
	uint64_t begin;
	uint64_t due_q16; /* of the next frame, after `begin` */
};

struct agent_receiver {
	struct wire_port *port;
	struct agent_ring *rings;
	const uint32_t *stop;
	uint32_t batch; /* descriptors read together */
	uint32_t ring_first, nb_rings;
	struct agent_check check;
	uint32_t rings_end; /* state: behind the last that was ever served */
};

/* Returns NULL, or what is wrong. */
const char *agent_generator_check(const struct agent_generator *generator);

/* Without carrier, it and its schedule pause. */
AGENT_CODE void agent_generate(struct agent_generator *generator);

/* Reads until `stop` is not 0 and, then, the rings are empty. */
AGENT_CODE void agent_receive(struct agent_receiver *receiver);

/* Does both in turn, until the receiver's `stop` is not 0. */
AGENT_CODE void agent_run(struct agent_generator *generator, struct agent_receiver *receiver);

/* Looks at a frame whose first `bytes` lie at `frame`, a multiple of 2. */
AGENT_CODE void agent_check_frame(struct agent_check *check, const void *frame, uint32_t bytes);

#endif
