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
#define SKIPS_MAX      4096 /* late frames that one step gives up if each has a time of its own */
#define SUB_BUCKETS    2048 /* of a histogram: more than twice 10^3 values, a power of two */
#define GRE            47
#define IP_IN_IP       4
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

/* Sorts the flows of the rings that are served by ring, unless a list has their order. */
static AGENT_CODE void sort(struct agent_generator *g)
{
	const uint32_t end = rings_end(g->ring_first, g->nb_rings, AGENT_LOAD_SAME(&g->port->rx_rings));
	struct agent_ring *rings = g->rings;

	g->rings_end = end > g->rings_end ? end : g->rings_end;
	g->nb_own = g->turn = 0;
	if (g->list != 0) {
		g->nb_own = end > g->ring_first ? g->nb_list : 0;
		return;
	}
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

static AGENT_CODE uint32_t has_schedule(const struct agent_generator *g)
{
	return !g->saturates && (g->interval_q16 != 0 || g->nb_times != 0);
}

/* Returns when the frame `i` behind the next one is due. */
static AGENT_CODE uint64_t due_of(const struct agent_generator *g, uint32_t i)
{
	uint64_t round_q16 = g->due_q16;
	uint32_t place = g->place + i;

	if (g->nb_times == 0)
		return g->due_q16 + i * g->interval_q16;
	for (; place >= g->nb_times; place -= g->nb_times)
		round_q16 += g->period_q16;
	return round_q16 + g->times_q16[place];
}

static AGENT_CODE void pass_times(struct agent_generator *g, uint64_t frames)
{
	if (g->nb_times == 0) {
		g->due_q16 += frames * g->interval_q16;
		return;
	}
	for (g->place += (uint32_t)frames; g->place >= g->nb_times; g->place -= g->nb_times)
		g->due_q16 += g->period_q16;
}

/* Gives up the frames that are due before `end_q16`; of listed times, as many as a step may. */
static AGENT_CODE void give_up(struct agent_generator *g, uint64_t end_q16)
{
	uint64_t frames = 0;

	if (due_of(g, 0) >= end_q16)
		return;
	if (g->nb_times == 0)
		frames = (end_q16 - g->due_q16 - 1) / g->interval_q16 + 1;
	else
		while (frames < SKIPS_MAX && due_of(g, (uint32_t)frames) < end_q16)
			frames++;
	g->unsent += frames;
	pass_times(g, frames);
}

/* Returns how many frames of the schedule are due before `end_q16`, at most a batch. */
static AGENT_CODE uint32_t scheduled(const struct agent_generator *g, uint64_t end_q16)
{
	uint64_t frames = 0;

	if (due_of(g, 0) >= end_q16)
		return 0;
	if (g->nb_times == 0)
		frames = (end_q16 - g->due_q16 - 1) / g->interval_q16 + 1;
	else
		while (frames < g->batch && due_of(g, (uint32_t)frames) < end_q16)
			frames++;
	return frames < g->batch ? (uint32_t)frames : g->batch;
}

/* Returns how many frames are due, at most a batch. */
static AGENT_CODE uint32_t due(struct agent_generator *g, uint64_t now_q16)
{
	const uint64_t end_q16 = now_q16 < g->limit_q16 ? now_q16 + 1 : g->limit_q16;
	const uint64_t late_max_q16 = g->late_max << 16;
	uint64_t frames = g->batch;

	if (g->silent || (!has_schedule(g) && now_q16 >= g->limit_q16))
		return 0;
	if (has_schedule(g)) {
		const uint64_t too_late = now_q16 > late_max_q16 ? now_q16 - late_max_q16 : 0;

		give_up(g, too_late < end_q16 ? too_late : end_q16);
		if (due_of(g, 0) < too_late)
			return 0;
		frames = scheduled(g, end_q16);
	} else if (g->saturates) {
		if (now_q16 < g->due_q16)
			return 0;
		g->due_q16 = now_q16; /* what it did not send in time is not made up for */
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

	if (g->list != 0) {
		while (turn >= g->nb_list)
			turn -= g->nb_list;
		return g->list[turn];
	}
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
	const uint64_t intended = has_schedule(g) ? due_of(g, i) >> 16 : batch->now;
	const uint64_t late = batch->now > intended ? batch->now - intended : 0;
	struct stamp stamp;

	stamp.order = ((g->numbered + i) & SEQUENCE_MASK) | (late < LATENESS_MAX ? late : LATENESS_MAX)
	                                                            << SEQUENCE_BITS;
	stamp.time = (intended & TIME_MASK) | (uint64_t)flow << TIME_BITS;
	return stamp;
}

/* Writes 16 bytes of a frame. Mark and stamp are in host byte order. */
static AGENT_CODE void write_chunk(const struct agent_generator *g, const struct agent_flow *flow,
                                   const struct stamp *stamp, uint8_t *data, uint32_t chunk)
{
	uint64_t low = stamp->order, high = chunk;

	if (chunk < PLACED_FROM) {
		low = flow->head[2 * chunk];
		high = flow->head[2 * chunk + 1];
	}
	if (chunk == 2)
		high |= stamp->order << 32 | (uint64_t)g->mark << 16; /* bytes 42 to 47 */
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
			write_chunk(g, &g->flows[flow], &stamp, data, chunk);
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

/* Returns how many of the next frames, from one to `frames`, go to one ring. */
static AGENT_CODE uint32_t run_of(const struct agent_generator *g, const struct agent_ring *own,
                                  uint32_t ring, uint32_t frames)
{
	uint32_t run = 1;

	if (g->list == 0)
		return own->end - own->begin < g->nb_own ? least(frames, own->end - g->turn) : frames;
	while (run < frames && g->flows[flow_of(g, own, run)].ring == ring)
		run++;
	return run;
}

/*
 * Sends up to `frames` of the flows whose turn it is, which belong to one ring. Returns how many were on the wire, delivered or not. Without a
 * schedule, and unless it saturates, none is missed: a ring without room loses its turn.
 */
static AGENT_CODE uint32_t send_run(struct agent_generator *g, uint32_t frames, uint64_t now)
{
	const uint32_t flow = g->list != 0 ? g->list[g->turn] : g->flows[g->turn].in_turn;
	const uint32_t r = g->flows[flow].ring;
	struct batch batch = {&g->port->rx[r], &g->rings[r - g->ring_first], 0, now};
	struct agent_ring *own = batch.own;
	const uint32_t run = run_of(g, own, r, frames);

	batch.frames = room_of(&batch, run);
	frames = has_schedule(g) || g->saturates ? run : batch.frames;
	if (frames == 0) {
		pass_turn(g, g->list != 0 ? run : own->end - g->turn);
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

/* Without a product of 128 bits, as long as a tick is at most a nanosecond. */
static AGENT_CODE uint64_t to_ns(uint64_t ticks, uint64_t ns_per_tick_q32)
{
	return (ticks >> 32) * ns_per_tick_q32 + ((ticks & UINT32_MAX) * ns_per_tick_q32 >> 32);
}

static AGENT_CODE void record(struct agent_histogram *h, uint64_t value, uint64_t times)
{
	const uint32_t shift = 64 - (uint32_t)__builtin_clzll(value | (SUB_BUCKETS - 1)) - 11; /* 2^11 */
	const uint64_t index = (uint64_t)shift * (SUB_BUCKETS / 2) + (value >> shift);

	if (AGENT_LANE != 0 || h->counts == 0 || times == 0)
		return;
	if (index >= h->nb_counts) {
		h->refused += times;
		return;
	}
	h->counts[index] += times;
	h->total += times;
	h->sum += value * times;
	h->min = value < h->min ? value : h->min;
	h->max = value > h->max ? value : h->max;
}

static AGENT_CODE void record_lateness(struct agent_generator *g, uint32_t frames, uint64_t now)
{
	for (uint32_t i = 0; i < frames; i++)
		record(&g->lateness, to_ns(now - (due_of(g, i) >> 16), g->ns_per_tick_q32), 1);
}

/* All frames of a step leave at the same read of the clock. */
static AGENT_CODE void record_departures(struct agent_generator *g, uint32_t frames, uint64_t now)
{
	if (g->bursts != 0 && AGENT_LANE == 0)
		g->bursts[frames]++;
	if (!g->recording)
		return;
	if (g->last_departure != 0)
		record(&g->interdeparture, to_ns(now - g->last_departure, g->ns_per_tick_q32), 1);
	record(&g->interdeparture, 0, frames - 1);
	g->last_departure = now;
}

static AGENT_CODE void send_due(struct agent_generator *g, uint64_t now)
{
	uint32_t left = due(g, now << 16), sent = 0, frames;

	for (; left > 0; left -= frames) {
		frames = send_run(g, left, now);
		if (frames == 0)
			break;
		if (g->recording && has_schedule(g))
			record_lateness(g, frames, now);
		g->numbered += frames;
		pass_times(g, frames);
		sent += frames;
	}
	if (sent > 0)
		record_departures(g, sent, now);
}

/* Counts times in which the clock went on and the agent did not. */
static AGENT_CODE void note_gap(struct agent_generator *g, uint64_t clock)
{
	const uint64_t gap = clock - g->last_step;
	const uint32_t is_first = g->last_step == 0;

	g->last_step = clock;
	g->last_gap = is_first ? 0 : gap;
	if (is_first || g->ticks_per_us == 0 || gap <= g->ticks_per_us)
		return;
	g->gaps_over_1us++;
	g->gaps_over_10us += gap > 10 * g->ticks_per_us;
	g->gaps_over_100us += gap > 100 * g->ticks_per_us;
	g->ticks_over_100us += gap > 100 * g->ticks_per_us ? gap : 0;
	g->longest_gap = gap > g->longest_gap ? gap : g->longest_gap;
}

static AGENT_CODE void step(struct agent_generator *g)
{
	const uint64_t clock = agent_same(agent_clock());

	g->now = (int64_t)(clock - g->begin);
	note_gap(g, clock);
	if (clock - g->last_scan >= AGENT_SCAN_TICKS) {
		g->last_scan = clock;
		follow_all(g);
	}
	if (AGENT_LOAD_SAME(&g->port->configuration) != g->configuration && !configure(g))
		return;
	if (!AGENT_LOAD_SAME(&g->port->running) || g->nb_own == 0) {
		follow_all(g);
		g->due_q16 = g->now > 0 ? (uint64_t)g->now << 16 : 0; /* no carrier, no schedule */
		g->place = 0;
		return;
	}
	if (g->now >= 0)
		send_due(g, (uint64_t)g->now);
}

static AGENT_CODE void begin_generator(struct agent_generator *g)
{
	g->rings_end = g->ring_first;
	take_counters(&g->port->rx[g->ring_first], g->rings,
	              rings_end(g->ring_first, g->nb_rings, WIRE_RINGS_MAX) - g->ring_first);
	g->configuration = 1;
	g->numbered = g->unsent = 0;
	g->begin = agent_same(agent_clock());
	g->limit_q16 = UINT64_MAX;
	g->due_q16 = 0;
	g->place = 0;
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

/* Returns whether a number was seen before, as far as the bits go back. */
static AGENT_CODE uint32_t is_copy(struct agent_check *check, uint64_t sequence)
{
	uint64_t *const word = &check->seen[sequence / 64 & (check->nb_seen - 1)];
	const uint64_t bit = UINT64_C(1) << (sequence & 63), last = sequence / 64;

	if (sequence < check->end) {
		if (check->end - sequence > 64 * ((uint64_t)check->nb_seen - 1)) {
			check->too_old++;
			check->overtaken++;
			return 0;
		}
		if (*word & bit)
			return 1;
		check->overtaken++;
	} else {
		uint64_t first = (check->end + 63) / 64;

		if (last >= check->nb_seen && first < last - check->nb_seen + 1)
			first = last - check->nb_seen + 1;
		for (; first <= last; first++)
			check->seen[first & (check->nb_seen - 1)] = 0;
		check->end = sequence + 1;
	}
	*word |= bit;
	return 0;
}

/* Returns the bytes of outer headers in front of a tunnelled packet: GRE in IPv6, or IPv4 in IPv4 (packets.h). */
static AGENT_CODE uint32_t tunnel_bytes(const uint8_t *data)
{
	if (data[12] == 0x86 && data[13] == 0xdd && data[20] == GRE && data[56] == 0x08 && data[57] == 0)
		return 44;
	return data[12] == 0x08 && data[13] == 0 && data[14] == 0x45 && data[23] == IP_IN_IP ? 20 : 0;
}

/* Returns the frame without outer headers, or NULL if it is of another generator. */
static AGENT_CODE const uint8_t *own_frame(const struct agent_check *check, const uint8_t *data,
                                           uint32_t *bytes)
{
	uint32_t outer;

	if (*bytes < AGENT_FRAME_BYTES_MIN)
		return 0;
	outer = tunnel_bytes(data);
	if (*bytes < AGENT_FRAME_BYTES_MIN + outer || (outer == 0 && (data[12] != 0x08 || data[13] != 0)))
		return 0;
	*bytes -= outer;
	data += outer; /* of the outer headers, Ethernet's is in front */
	return data[14] == 0x45 && data[23] == UDP && agent_load_bytes(data + MARK_AT, 2) == check->mark
	               ? data
	               : 0;
}

/* Returns whether the frame is of this generator, and then its stamp. */
static AGENT_CODE uint32_t check_stamp(struct agent_check *check, const uint8_t *data, uint32_t bytes,
                                       struct stamp *stamp)
{
	uint64_t sequence, flow;
	uint32_t last;

	check->packets++;
	data = own_frame(check, data, &bytes);
	if (data == 0) {
		check->unmarked++;
		return 0;
	}
	stamp->order = agent_load_bytes(data + STAMP_AT, 8);
	stamp->time = agent_load_bytes(data + STAMP_AT + 8, 8);
	sequence = stamp->order & SEQUENCE_MASK;
	flow = stamp->time >> TIME_BITS;
	last = bytes / 16 - 1;
	if (flow >= check->nb_flows) {
		check->unmarked++;
		return 0;
	}
	if (check->seen != 0 && is_copy(check, sequence))
		check->duplicated++;
	else if (sequence < check->next[flow])
		check->reordered++;
	else
		check->next[flow] = sequence + 1;
	if (last >= PLACED_FROM &&
	    ((agent_load_bytes(data + (uint64_t)16 * last, 8) & SEQUENCE_MASK) != sequence ||
	     agent_load_bytes(data + (uint64_t)16 * last + 8, 8) != last))
		check->torn++;
	return 1;
}

AGENT_CODE void agent_check_frame(struct agent_check *check, const void *frame, uint32_t bytes)
{
	struct stamp stamp;

	check_stamp(check, (const uint8_t *)frame, bytes, &stamp);
}

/* Returns whether the frame is of the receiver's generator. */
static AGENT_CODE uint32_t look_at(struct agent_receiver *receiver, const uint8_t *data, uint32_t bytes,
                                   uint64_t arrival)
{
	struct stamp stamp;
	uint64_t intended, late;

	if (!check_stamp(&receiver->check, data, bytes, &stamp))
		return 0;
	intended = stamp.time & TIME_MASK;
	late = stamp.order >> SEQUENCE_BITS;
	if (intended >= receiver->window_begin && intended < receiver->window_end) {
		record(&receiver->from_intended, to_ns(arrival - intended, receiver->ns_per_tick_q32), 1);
		record(&receiver->from_sent, to_ns(arrival - intended - late, receiver->ns_per_tick_q32), 1);
	}
	return 1;
}

/* Reads what is posted in a transmit ring. Returns the number of descriptors. */
static AGENT_CODE uint32_t read_ring(struct agent_receiver *receiver, struct wire_ring *ring,
                                     struct agent_ring *own)
{
	uint32_t posted = 0;
	uint64_t arrival;

	if (follow(ring, own))
		posted = least(read_tail(ring, own), receiver->batch);
	if (posted == 0)
		return 0;
	arrival = agent_clock() - receiver->begin;
	for (uint32_t i = 0; i < posted; i++) {
		const struct wire_descriptor *desc = descriptor_of(ring, own->head + i);
		const uint8_t *data = (const uint8_t *)(uintptr_t)desc->buffer;
		const uint32_t bytes = (uint16_t)desc->word;

		if (!own->inside)
			own->inside = !receiver->blind && look_at(receiver, data, bytes, arrival) ? 2 : 1;
		if (own->inside == 2)
			receiver->check.bytes += bytes;
		own->bytes += bytes;
		if (desc->word & WIRE_EOP) {
			own->packets++;
			own->inside = 0;
		}
	}
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

AGENT_CODE uint32_t agent_read(struct agent_receiver *receiver)
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

static AGENT_CODE void leave_all(struct agent_receiver *receiver)
{
	for (uint32_t r = receiver->ring_first; r < receiver->rings_end; r++)
		leave(&receiver->port->tx[r], &receiver->rings[r - receiver->ring_first]);
}

static AGENT_CODE void end_receiver(struct agent_receiver *receiver)
{
	while (agent_read(receiver) > 0)
		;
	leave_all(receiver);
}

AGENT_CODE void agent_receive(struct agent_receiver *receiver)
{
	begin_receiver(receiver);
	while (!is_stopped(receiver->stop))
		agent_read(receiver);
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
		agent_read(receiver);
	}
	end_generator(g);
	end_receiver(receiver);
}

AGENT_CODE void agent_prepare(struct agent_generator *g)
{
	g->rings_end = g->ring_first;
	configure(g);
}

AGENT_CODE void agent_begin(struct agent_generator *g, struct agent_receiver *receiver, uint64_t begin)
{
	const uint32_t configuration = g->configuration, end = g->rings_end;

	begin_generator(g);
	g->configuration = configuration;
	g->rings_end = end;
	g->turn = 0;
	if (g->list != 0 && g->nb_own != 0)
		g->nb_own = g->nb_list; /* which may be another than that of the trial before */
	g->begin = begin;
	g->now = -1;
	g->gaps_over_1us = g->gaps_over_10us = g->gaps_over_100us = g->ticks_over_100us = 0;
	g->longest_gap = g->last_step = g->last_departure = 0;
	if (receiver == 0)
		return;
	receiver->begin = begin;
	begin_receiver(receiver);
}

/* Returns whether nothing before the limit is left to do. */
static AGENT_CODE uint32_t is_done(const struct agent_generator *g, uint64_t limit)
{
	return g->now >= (int64_t)limit && (g->silent || !has_schedule(g) || due_of(g, 0) >= g->limit_q16);
}

AGENT_CODE uint32_t agent_send_until(struct agent_generator *g, struct agent_receiver *receiver,
                                     uint64_t limit)
{
	uint64_t end;

	g->limit_q16 = limit << 16;
	do {
		if (is_stopped(g->stop)) {
			end = g->now > 0 ? (uint64_t)g->now : 0;
			end = end < limit ? end << 16 : g->limit_q16;
			while (has_schedule(g) && !g->silent && due_of(g, 0) < end)
				give_up(g, end);
			return 0;
		}
		step(g);
		if (receiver != 0)
			agent_read(receiver);
	} while (!is_done(g, limit));
	return 1;
}

AGENT_CODE void agent_end(struct agent_generator *g, struct agent_receiver *receiver)
{
	end_generator(g);
	if (receiver != 0)
		leave_all(receiver);
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
