/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPU block runs this with many lanes, a thread with one. Code outside loops over lanes is the same for all lanes. */
#include <stddef.h>

#include "agent.h"

#define STAMP_AT       44
#define MARK_AT        42
#define PLACED_FROM    4 /* 16 bytes each */
#define SEQUENCE_BITS  40
#define SEQUENCE_MASK  ((UINT64_C(1) << SEQUENCE_BITS) - 1)
#define LATENESS_MAX   ((UINT64_C(1) << (64 - SEQUENCE_BITS)) - 1)
#define TIME_BITS      48
#define TIME_MASK      ((UINT64_C(1) << TIME_BITS) - 1)
#define SCAN_EVERY     64 /* steps, after which stops of rings without frames are seen */
#define UDP            17
#define TTL_HOPS       64
#define PORT_OF_FRAMES 9 /* discard, RFC 863 */

static AGENT_CODE uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Ends the use of a ring. All stores to it come before. */
static AGENT_CODE void leave(struct wire_ring *ring, struct agent_ring *own)
{
	if (own->epoch == 0)
		return;
	AGENT_STORE_ONCE(&ring->head, own->head);
	AGENT_FENCE;
	AGENT_BARRIER;
	AGENT_STORE_ONCE(&ring->busy, 0);
	own->epoch = 0;
}

static AGENT_CODE void enter(struct wire_ring *ring, struct agent_ring *own, uint32_t epoch)
{
	AGENT_STORE_ONCE(&ring->busy, epoch);
	AGENT_FENCE_FULL;
	if (AGENT_LOAD_SAME(&ring->epoch) != epoch) {
		AGENT_STORE_ONCE(&ring->busy, 0);
		return;
	}
	AGENT_FENCE;
	own->epoch = epoch;
	own->head = own->tail = AGENT_LOAD_SAME(&ring->head);
	own->inside = 0;
}

/* Follows starts and stops of a ring. Returns whether it may be used until the next call. */
static AGENT_CODE uint32_t follow(struct wire_ring *ring, struct agent_ring *own)
{
	const uint32_t epoch = AGENT_LOAD_SAME(&ring->epoch);

	if (epoch != own->epoch) {
		leave(ring, own);
		if (epoch != 0)
			enter(ring, own, epoch);
	}
	return own->epoch != 0;
}

static AGENT_CODE uint32_t read_tail(const struct wire_ring *ring, struct agent_ring *own)
{
	const uint32_t *tail = (const uint32_t *)(uintptr_t)ring->tail;

	own->tail = AGENT_LOAD_SAME(tail);
	AGENT_FENCE; /* descriptors are read after TAIL */
	return own->tail - own->head;
}

static AGENT_CODE void count(struct wire_ring *ring, const struct agent_ring *own)
{
	AGENT_STORE_ONCE(&ring->packets, own->packets);
	AGENT_STORE_ONCE(&ring->bytes, own->bytes);
	AGENT_STORE_ONCE(&ring->missed, own->missed);
	AGENT_STORE_ONCE(&ring->oversize, own->oversize);
}

/* Continues the counters of rings, which another agent may have counted up before. */
static AGENT_CODE void take_counters(const struct wire_ring *rings, struct agent_ring *own, uint32_t count)
{
	for (uint32_t r = 0; r < count; r++) {
		own[r].packets = AGENT_LOAD_SAME(&rings[r].packets);
		own[r].bytes = AGENT_LOAD_SAME(&rings[r].bytes);
		own[r].missed = AGENT_LOAD_SAME(&rings[r].missed);
		own[r].oversize = AGENT_LOAD_SAME(&rings[r].oversize);
	}
}

static AGENT_CODE uint32_t is_stopped(const uint32_t *stop)
{
	return stop != 0 && AGENT_LOAD_SAME(stop) != 0;
}

/* Toeplitz hash of the Microsoft RSS specification. */
static AGENT_CODE uint32_t toeplitz(const uint8_t *key, const uint8_t *input, uint32_t bytes)
{
	uint32_t window = (uint32_t)key[0] << 24 | (uint32_t)key[1] << 16 | (uint32_t)key[2] << 8 | key[3];
	uint32_t hash = 0;

	for (uint32_t i = 0; i < bytes; i++)
		for (int bit = 7; bit >= 0; bit--) {
			if (input[i] >> bit & 1)
				hash ^= window;
			window = window << 1 | (key[i + 4] >> bit & 1u);
		}
	return hash;
}

static AGENT_CODE void put(uint8_t *at, uint64_t value, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

static AGENT_CODE uint16_t ip_checksum(const uint8_t *header)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < 20; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~(sum + (sum >> 16));
}

static AGENT_CODE void write_head(const struct agent_generator *g, struct agent_flow *flow)
{
	uint8_t head[64];

	for (uint32_t i = 0; i < sizeof(head); i++)
		head[i] = 0;
	for (uint32_t i = 0; i < WIRE_MAC_BYTES; i++)
		head[i] = g->port->mac[i];
	head[6] = 0x02; /* locally administered */
	put(head + 12, 0x0800, 2);
	head[14] = 0x45;
	put(head + 16, g->frame_bytes - 14, 2);
	put(head + 20, 0x4000, 2); /* don't fragment */
	head[22] = TTL_HOPS;
	head[23] = UDP;
	put(head + 26, flow->source, 4);
	put(head + 30, flow->destination, 4);
	put(head + 24, ip_checksum(head + 14), 2);
	put(head + 34, flow->source_port, 2);
	put(head + 36, PORT_OF_FRAMES, 2);
	put(head + 38, g->frame_bytes - 34, 2);
	head[MARK_AT] = (uint8_t)g->mark; /* host byte order, like the stamp */
	head[MARK_AT + 1] = (uint8_t)(g->mark >> 8);
	for (uint32_t word = 0; word < 8; word++) {
		flow->head[word] = 0;
		for (uint32_t i = 0; i < 8; i++)
			flow->head[word] |= (uint64_t)head[8 * word + i] << (8 * i);
	}
}

/* Finds the ring of a flow as the port's configuration says. */
static AGENT_CODE void classify(const struct agent_generator *g, struct agent_flow *flow, uint32_t number)
{
	const struct wire_port *port = g->port;
	uint8_t input[12];
	uint32_t hash;

	flow->ring = 0;
	flow->word = WIRE_DD | WIRE_EOP | WIRE_L4_GOOD | WIRE_TYPE_IPV4_UDP << WIRE_TYPE_SHIFT;
	put(input, flow->source, 4);
	put(input + 4, flow->destination, 4);
	put(input + 8, flow->source_port, 2);
	put(input + 10, PORT_OF_FRAMES, 2);
	if (port->hash_bytes != 0) {
		hash = toeplitz(port->rss_key, input, least(port->hash_bytes, sizeof(input)));
		flow->ring = port->reta[hash & port->reta_mask & (WIRE_RETA_MAX - 1)];
		if (port->hash_wanted)
			flow->word |= WIRE_HASH | (uint64_t)hash << WIRE_HASH_SHIFT;
	}
	if (g->by_ring && port->rx_rings != 0)
		flow->ring = (uint16_t)(number % port->rx_rings);
}

static AGENT_CODE uint32_t rings_end(uint32_t first, uint32_t rings, uint32_t all)
{
	return least(rings == 0 ? all : first + rings, least(all, WIRE_RINGS_MAX));
}

/* Sorts the flows of the rings that are served by ring. */
static AGENT_CODE void sort(struct agent_generator *g)
{
	const uint32_t end = rings_end(g->ring_first, g->nb_rings, AGENT_LOAD_SAME(&g->port->rx_rings));
	struct agent_ring *rings = g->rings;

	g->rings_end = end > g->rings_end ? end : g->rings_end;
	g->nb_own = g->turn = 0;
	for (uint32_t r = g->ring_first; r < end; r++)
		rings[r - g->ring_first].end = 0;
	for (uint32_t f = 0; f < g->nb_flows; f++)
		if (g->flows[f].ring >= g->ring_first && g->flows[f].ring < end)
			rings[g->flows[f].ring - g->ring_first].end++;
	for (uint32_t r = 0; r + g->ring_first < end; r++) {
		rings[r].begin = g->nb_own;
		g->nb_own += rings[r].end;
		rings[r].end = rings[r].begin;
	}
	for (uint32_t f = 0; f < g->nb_flows; f++)
		if (g->flows[f].ring >= g->ring_first && g->flows[f].ring < end)
			g->flows[rings[g->flows[f].ring - g->ring_first].end++].in_turn = f;
}

/* Takes over the port's configuration. Returns 0 if it is being changed. */
static AGENT_CODE uint32_t configure(struct agent_generator *g)
{
	const uint32_t before = AGENT_LOAD_SAME(&g->port->configuration);

	g->configuration = 1;
	if (before & 1)
		return 0;
	AGENT_FENCE;
	g->frame_bytes_max = AGENT_LOAD_SAME(&g->port->frame_bytes_max);
	for (uint32_t f = AGENT_LANE; f < g->nb_flows; f += AGENT_LANES) {
		write_head(g, &g->flows[f]);
		classify(g, &g->flows[f], f);
	}
	AGENT_FENCE;
	AGENT_BARRIER;
	sort(g);
	AGENT_BARRIER;
	AGENT_FENCE;
	if (AGENT_LOAD_SAME(&g->port->configuration) != before)
		return 0;
	g->configuration = before;
	return 1;
}

static AGENT_CODE void follow_all(struct agent_generator *g)
{
	for (uint32_t r = g->ring_first; r < g->rings_end; r++)
		if (g->rings[r - g->ring_first].epoch != 0)
			follow(&g->port->rx[r], &g->rings[r - g->ring_first]);
}

/* Returns how many frames are due, at most a batch. */
static AGENT_CODE uint32_t due(struct agent_generator *g, uint64_t now_q16)
{
	const uint64_t late_max_q16 = g->late_max << 16;
	uint64_t frames = g->batch;

	if (g->interval_q16 != 0) {
		if (now_q16 < g->due_q16)
			return 0;
		if (now_q16 - g->due_q16 > late_max_q16) {
			const uint64_t late = (now_q16 - g->due_q16 - late_max_q16) / g->interval_q16;

			g->unsent += late;
			g->due_q16 += late * g->interval_q16;
		}
		frames = (now_q16 - g->due_q16) / g->interval_q16 + 1;
		frames = frames < g->batch ? frames : g->batch;
	}
	if (g->frames != 0 && frames > g->frames - g->numbered)
		frames = g->frames - g->numbered;
	return (uint32_t)frames;
}

/* Frames to be written into one ring. */
struct batch {
	struct wire_ring *ring;
	struct agent_ring *own;
	uint32_t frames;
	uint64_t now; /* ticks after the begin */
};

/* Returns the number of the flow whose turn comes `i` frames later. */
static AGENT_CODE uint32_t flow_of(const struct agent_generator *g, const struct agent_ring *own, uint32_t i)
{
	uint32_t turn = g->turn + i;

	while (turn >= own->end) /* only if all flows belong to this ring */
		turn -= own->end - own->begin;
	return g->flows[turn].in_turn;
}

static AGENT_CODE struct wire_descriptor *descriptor_of(const struct wire_ring *ring, uint32_t count)
{
	return (struct wire_descriptor *)(uintptr_t)ring->descriptors + (count & (ring->size - 1));
}

/* The stamp of packets.h. */
struct stamp {
	uint64_t order; /* sequence number, lateness */
	uint64_t time;  /* intended departure, flow */
};

static AGENT_CODE struct stamp stamp_of(const struct agent_generator *g, const struct batch *batch,
                                        uint32_t i, uint32_t flow)
{
	const uint64_t intended =
	        g->interval_q16 == 0 ? batch->now : (g->due_q16 + i * g->interval_q16) >> 16;
	const uint64_t late = batch->now > intended ? batch->now - intended : 0;
	struct stamp stamp;

	stamp.order = ((g->numbered + i) & SEQUENCE_MASK) | (late < LATENESS_MAX ? late : LATENESS_MAX)
	                                                            << SEQUENCE_BITS;
	stamp.time = (intended & TIME_MASK) | (uint64_t)flow << TIME_BITS;
	return stamp;
}

/* Writes 16 bytes of a frame. */
static AGENT_CODE void write_chunk(const struct agent_flow *flow, const struct stamp *stamp, uint8_t *data,
                                   uint32_t chunk)
{
	uint64_t low = stamp->order, high = chunk;

	if (chunk < PLACED_FROM) {
		low = flow->head[2 * chunk];
		high = flow->head[2 * chunk + 1];
	}
	if (chunk == 2)
		high |= stamp->order << 32; /* bytes 44 to 47 */
	if (chunk == 3) {
		low = stamp->order >> 32 | stamp->time << 32;
		high = stamp->time >> 32;
	}
	agent_write16(data + (uint64_t)16 * chunk, low, high);
}

/* Lanes take the 16 bytes of all frames in turn. */
static AGENT_CODE void write_frames(const struct agent_generator *g, const struct batch *batch,
                                    const uint64_t *handles)
{
	const uint32_t chunks = (g->frame_bytes + 15) / 16;
	uint32_t chunk = AGENT_LANE, frame = 0;

	while (frame < batch->frames) {
		const uint32_t flow = flow_of(g, batch->own, frame);
		const struct stamp stamp = stamp_of(g, batch, frame, flow);
		uint8_t *data = (uint8_t *)(uintptr_t)(handles[frame] + batch->ring->buffer_offset);

		for (; chunk < chunks; chunk += AGENT_LANES)
			write_chunk(&g->flows[flow], &stamp, data, chunk);
		for (; chunk >= chunks; chunk -= chunks)
			frame++;
	}
}

static AGENT_CODE void write_descriptors(const struct agent_generator *g, const struct batch *batch,
                                         const uint64_t *handles)
{
	for (uint32_t i = AGENT_LANE; i < batch->frames; i += AGENT_LANES)
		agent_store16(descriptor_of(batch->ring, batch->own->head + i), handles[i],
		              g->flows[flow_of(g, batch->own, i)].word | g->frame_bytes);
}

/* The order that a reader relies on: frames, fence, DD. */
static AGENT_CODE void deliver(const struct agent_generator *g, const struct batch *batch)
{
	AGENT_SHARED uint64_t handles[AGENT_BATCH_MAX];

	for (uint32_t i = AGENT_LANE; i < batch->frames; i += AGENT_LANES)
		handles[i] = descriptor_of(batch->ring, batch->own->head + i)->buffer;
	AGENT_BARRIER;
	if (g->descriptors_first)
		write_descriptors(g, batch, handles);
	AGENT_BARRIER;
	write_frames(g, batch, handles);
	AGENT_FENCE;
	AGENT_BARRIER;
	if (!g->descriptors_first)
		write_descriptors(g, batch, handles);
	AGENT_BARRIER;
}

static AGENT_CODE void pass_turn(struct agent_generator *g, uint32_t frames)
{
	g->turn += frames;
	while (g->turn >= g->nb_own)
		g->turn -= g->nb_own;
}

/* Returns how many frames the ring takes; 0 while it is stopped. */
static AGENT_CODE uint32_t room_of(const struct batch *batch, uint32_t frames)
{
	struct agent_ring *own = batch->own;
	uint32_t room;

	if (!follow(batch->ring, own))
		return 0;
	room = own->tail - own->head;
	return least(room < frames ? read_tail(batch->ring, own) : room, frames);
}

/*
 * Sends up to `frames` of the flows whose turn it is, which belong to one ring. Returns how many were on the wire, delivered or not. Without a
 * schedule none is missed: a ring without room loses its turn.
 */
static AGENT_CODE uint32_t send(struct agent_generator *g, uint32_t frames, uint64_t now)
{
	const uint32_t r = g->flows[g->flows[g->turn].in_turn].ring;
	struct batch batch = {&g->port->rx[r], &g->rings[r - g->ring_first], 0, now};
	struct agent_ring *own = batch.own;

	if (own->end - own->begin < g->nb_own)
		frames = least(frames, own->end - g->turn);
	batch.frames = room_of(&batch, frames);
	if (g->interval_q16 == 0)
		frames = batch.frames;
	if (frames == 0) {
		pass_turn(g, own->end - g->turn);
		return 0;
	}
	/* After a restart the copied configuration may be older than the ring that was entered. */
	if (g->frame_bytes > g->frame_bytes_max ||
	    (batch.frames > 0 && g->frame_bytes > batch.ring->buffer_bytes)) {
		own->oversize += frames;
	} else {
		if (batch.frames > 0)
			deliver(g, &batch);
		own->head += batch.frames;
		own->packets += batch.frames;
		own->bytes += (uint64_t)batch.frames * g->frame_bytes;
		own->missed += frames - batch.frames;
	}
	count(batch.ring, own);
	pass_turn(g, frames);
	return frames;
}

static AGENT_CODE void step(struct agent_generator *g)
{
	const uint64_t now = agent_same(agent_clock()) - g->begin;
	uint32_t frames;

	if (++g->steps % SCAN_EVERY == 0)
		follow_all(g);
	if (AGENT_LOAD_SAME(&g->port->configuration) != g->configuration && !configure(g))
		return;
	if (!AGENT_LOAD_SAME(&g->port->running) || g->nb_own == 0) {
		follow_all(g);
		g->due_q16 = now << 16; /* no carrier, no schedule */
		return;
	}
	frames = due(g, now << 16);
	if (frames == 0)
		return;
	frames = send(g, frames, now);
	g->numbered += frames;
	g->due_q16 += frames * g->interval_q16;
}

static AGENT_CODE void begin_generator(struct agent_generator *g)
{
	g->rings_end = g->ring_first;
	take_counters(&g->port->rx[g->ring_first], g->rings,
	              rings_end(g->ring_first, g->nb_rings, WIRE_RINGS_MAX) - g->ring_first);
	g->configuration = 1;
	g->numbered = g->unsent = 0;
	g->begin = agent_same(agent_clock());
	g->due_q16 = 0;
}

static AGENT_CODE uint32_t has_frames(const struct agent_generator *g)
{
	return g->frames == 0 || g->numbered < g->frames;
}

static AGENT_CODE void end_generator(struct agent_generator *g)
{
	for (uint32_t r = g->ring_first; r < g->rings_end; r++)
		leave(&g->port->rx[r], &g->rings[r - g->ring_first]);
}

AGENT_CODE void agent_generate(struct agent_generator *g)
{
	begin_generator(g);
	while (!is_stopped(g->stop) && has_frames(g))
		step(g);
	end_generator(g);
}

static AGENT_CODE uint64_t load_bytes(const uint8_t *at, uint32_t bytes)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < bytes; i++)
		value |= (uint64_t)AGENT_LOAD(&at[i]) << (8 * i);
	return value;
}

AGENT_CODE void agent_check_frame(struct agent_check *check, const void *frame, uint32_t bytes)
{
	const uint8_t *data = (const uint8_t *)frame;
	const uint32_t last = bytes / 16 - 1;
	uint64_t sequence, flow;

	check->packets++;
	if (bytes < AGENT_FRAME_BYTES_MIN || data[12] != 0x08 || data[13] != 0 || data[23] != UDP ||
	    load_bytes(data + MARK_AT, 2) != check->mark) {
		check->unmarked++;
		return;
	}
	sequence = load_bytes(data + STAMP_AT, 8) & SEQUENCE_MASK;
	flow = load_bytes(data + STAMP_AT + 14, 2);
	if (flow >= check->nb_flows) {
		check->unmarked++;
		return;
	}
	if (sequence < check->next[flow])
		check->reordered++;
	else
		check->next[flow] = sequence + 1;
	if (last >= PLACED_FROM && ((load_bytes(data + (uint64_t)16 * last, 8) & SEQUENCE_MASK) != sequence ||
	                            load_bytes(data + (uint64_t)16 * last + 8, 8) != last))
		check->torn++;
}

/* Reads what is posted in a transmit ring. Returns the number of descriptors. */
static AGENT_CODE uint32_t read_ring(struct agent_receiver *receiver, struct wire_ring *ring,
                                     struct agent_ring *own)
{
	uint32_t posted = 0;

	if (follow(ring, own))
		posted = least(read_tail(ring, own), receiver->batch);
	for (uint32_t i = 0; i < posted; i++) {
		const struct wire_descriptor *desc = descriptor_of(ring, own->head + i);
		const uint32_t bytes = (uint16_t)desc->word;

		if (!own->inside)
			agent_check_frame(&receiver->check, (const void *)(uintptr_t)desc->buffer, bytes);
		own->inside = (desc->word & WIRE_EOP) == 0;
		own->packets += !own->inside;
		own->bytes += bytes;
	}
	if (posted == 0)
		return 0;
	own->head += posted;
	AGENT_FENCE; /* buffers are read before HEAD says so */
	count(ring, own);
	AGENT_STORE_ONCE(&ring->head, own->head);
	return posted;
}

static AGENT_CODE void begin_receiver(struct agent_receiver *receiver)
{
	receiver->rings_end = receiver->ring_first;
	take_counters(&receiver->port->tx[receiver->ring_first], receiver->rings,
	              rings_end(receiver->ring_first, receiver->nb_rings, WIRE_RINGS_MAX) -
	                      receiver->ring_first);
}

/* Reads a batch of each ring. Returns the number of descriptors. */
static AGENT_CODE uint32_t read_all(struct agent_receiver *receiver)
{
	const uint32_t end = rings_end(receiver->ring_first, receiver->nb_rings,
	                               AGENT_LOAD_SAME(&receiver->port->tx_rings));
	uint32_t read = 0;

	receiver->rings_end = end > receiver->rings_end ? end : receiver->rings_end;
	for (uint32_t r = receiver->ring_first; r < receiver->rings_end; r++)
		read += read_ring(receiver, &receiver->port->tx[r],
		                  &receiver->rings[r - receiver->ring_first]);
	return read;
}

static AGENT_CODE void end_receiver(struct agent_receiver *receiver)
{
	while (read_all(receiver) > 0)
		;
	for (uint32_t r = receiver->ring_first; r < receiver->rings_end; r++)
		leave(&receiver->port->tx[r], &receiver->rings[r - receiver->ring_first]);
}

AGENT_CODE void agent_receive(struct agent_receiver *receiver)
{
	begin_receiver(receiver);
	while (!is_stopped(receiver->stop))
		read_all(receiver);
	end_receiver(receiver);
}

AGENT_CODE void agent_run(struct agent_generator *g, struct agent_receiver *receiver)
{
	begin_generator(g);
	begin_receiver(receiver);
	while (!is_stopped(receiver->stop)) {
		if (has_frames(g))
			step(g);
		else
			end_generator(g); /* rings that are left stay so */
		read_all(receiver);
	}
	end_generator(g);
	end_receiver(receiver);
}

#ifndef AGENT_ON_GPU
const char *agent_generator_check(const struct agent_generator *g)
{
	if (g->port->abi != WIRE_ABI)
		return "the port has another ABI of wire.h (build agent and driver from one source)";
	if (g->frame_bytes < AGENT_FRAME_BYTES_MIN || g->frame_bytes > AGENT_FRAME_BYTES_MAX)
		return "frame_bytes is out of range (60 to 9018)";
	if (g->batch < 1 || g->batch > AGENT_BATCH_MAX)
		return "batch is out of range (1 to 256)";
	if (g->nb_flows < 1 || g->nb_flows > AGENT_FLOWS_MAX)
		return "nb_flows is out of range (1 to 65536)";
	if (g->ring_first >= WIRE_RINGS_MAX)
		return "ring_first is out of range (0 to 1023)";
	return NULL;
}
#endif
