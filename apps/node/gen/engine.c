/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include <rte_branch_prediction.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>

static __rte_always_inline uint64_t to_ns(const struct gen_engine *e, uint64_t cycles)
{
	return (uint64_t)(((unsigned __int128)cycles * e->ns_per_cycle_q32) >> 32);
}

/*
 * As above, for a lateness that fits the 24 bits of the stamp: one multiplication, so that several values are converted
 * at once.
 */
static __rte_always_inline uint64_t lateness_to_ns(const struct gen_engine *e, uint64_t cycles)
{
	return cycles * e->ns_per_cycle_q32 >> 32;
}

static __rte_always_inline uint64_t begin_iteration(struct gen_engine *e)
{
	const uint64_t now = rte_rdtsc();
	const uint64_t gap = now - e->last_iteration_tsc;

	e->last_iteration_tsc = now;
	if (unlikely(gap > e->cycles_us)) {
		e->counts.gaps_over_1us++;
		e->counts.gaps_over_10us += gap > 10 * e->cycles_us;
		e->counts.gaps_over_100us += gap > 100 * e->cycles_us;
		e->counts.cycles_over_100us += gap > 100 * e->cycles_us ? gap : 0;
		e->longest_gap = RTE_MAX(e->longest_gap, gap);
		e->last_gap = gap;
		e->last_gap_end_tsc = now;
	}
	return now;
}

/* Ensure that mbufs[0..n-1] are allocated; those that an earlier iteration could not send are still there. */
static __rte_always_inline bool hold_mbufs(struct gen_engine *e, unsigned int n)
{
	if (n > e->held) {
		if (unlikely(rte_mempool_get_bulk(e->pool, (void **)&e->mbufs[e->held], n - e->held) != 0)) {
			e->counts.no_mbuf++;
			return false;
		}
		e->held = n;
	}
	return true;
}

/* Write n frames for the slots intended[], or for `now` without a schedule. Returns their bytes. */
static __rte_always_inline uint64_t write_burst(struct gen_engine *e, const enum gen_list_kind list,
                                                uint64_t now, unsigned int n, const bool paced)
{
	/* Copies: otherwise the compiler must assume that the stores into frames change *e. */
	const struct packet_template *templates = e->templates;
	const struct packet_flow *flows = e->traffic.flows;
	const struct gen_entry *entries = &e->traffic.lists[list].entries[e->place[list]];
	const uint64_t begin = e->trial->begin_tsc;
	struct rte_mbuf *const *mbufs = e->mbufs;
	struct packet_stamp stamp = {.sequence = e->sequence, .intended = now - begin};
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < n; i++, stamp.sequence++) {
		const struct packet_template *template = &templates[entries[i].size];
		/* The mbuf is from this lcore's pool, so its buffer follows it, whatever it carried last. */
		uint8_t *frame = (uint8_t *)(mbufs[i] + 1) + RTE_PKTMBUF_HEADROOM;

		if (paced) {
			stamp.intended = e->intended[i] - begin;
			stamp.lateness = now - e->intended[i];
		}
		packet_write(mbufs[i], frame, template, &flows[entries[i].flow], &stamp);
		bytes += template->mbuf_bytes;
	}
	return bytes;
}

/* Move the refused frames to the front for the next iteration, which writes them again. Returns their bytes. */
static uint64_t keep_refused(struct gen_engine *e, unsigned int sent, unsigned int n)
{
	uint64_t bytes = 0;

	for (unsigned int i = sent; i < n; i++)
		bytes += e->mbufs[i]->pkt_len;
	e->counts.tx_refused += n - sent;
	memmove(e->mbufs, e->mbufs + sent, (e->held - sent) * sizeof(e->mbufs[0]));
	memmove(e->intended, e->intended + sent, (n - sent) * sizeof(e->intended[0]));
	return bytes;
}

/* Keep the stamps of the first departures of the window (`departures` of the configuration). */
static void keep_departures(struct gen_engine *e, uint64_t now, unsigned int sent)
{
	for (unsigned int i = 0; i < sent && e->departures_count < e->departures_max; i++)
		e->departures[e->departures_count++] =
		        (struct gen_departure){.sent = now, .lateness = now - e->intended[i]};
}

/* Record histograms of a paced burst, before the refused frames are moved up. */
static __rte_always_inline void record_departures(struct gen_engine *e, uint64_t now, unsigned int sent)
{
	uint64_t lateness_ns[GEN_BURST_MAX];

	if (!e->in_window || sent == 0)
		return;
	for (unsigned int i = 0; i < sent; i++)
		lateness_ns[i] = lateness_to_ns(e, now - e->intended[i]);
	histogram_record_all(&e->lateness_ns, lateness_ns, sent);
	if (e->last_departure_tsc != 0)
		histogram_record(&e->interdeparture_ns, to_ns(e, now - e->last_departure_tsc));
	/* the rest of the burst left at the same read of the TSC */
	histogram_record_times(&e->interdeparture_ns, 0, sent - 1);
	e->last_departure_tsc = now;
	if (unlikely(e->departures_count < e->departures_max))
		keep_departures(e, now, sent);
}

/* Write and send a burst of n frames from a list. Returns how many the driver accepted. */
static __rte_always_inline unsigned int send_burst(struct gen_engine *e, const enum gen_list_kind list,
                                                   uint64_t now, unsigned int n, const bool paced)
{
	uint64_t bytes;
	unsigned int sent;

	if (!hold_mbufs(e, n))
		return 0;
	bytes = write_burst(e, list, now, n, paced);
	sent = rte_eth_tx_burst(e->tx_port, e->tx_queue, e->mbufs, (uint16_t)n);
	if (paced)
		record_departures(e, now, sent);
	if (unlikely(sent < n))
		bytes -= keep_refused(e, sent, n);
	e->held -= sent;
	e->sequence += sent;
	e->sent_of[list] += sent;
	e->place[list] += sent;
	while (unlikely(e->place[list] >= e->traffic.lists[list].count))
		e->place[list] -= e->traffic.lists[list].count;
	e->counts.sent += sent;
	e->counts.tx_bytes += bytes;
	e->counts.bursts[sent]++;
	return sent;
}

/* Slots that waited for the driver or an mbuf count as unsent once they are too late; oldest first. */
static void expire_waiting(struct gen_engine *e, uint64_t now)
{
	unsigned int expired = 0;

	while (expired < e->waiting && now - e->intended[expired] > e->pacer.late_max_cycles)
		expired++;
	e->waiting -= expired;
	memmove(e->intended, e->intended + expired, e->waiting * sizeof(e->intended[0]));
	e->counts.unsent += expired;
}

/* Send what is due before `limit`. Returns true if no slot before `limit` is left. */
static __rte_always_inline bool send_due(struct gen_engine *e, uint64_t now, uint64_t limit)
{
	uint64_t skipped = 0;
	unsigned int taken;

	if (unlikely(e->waiting > 0))
		expire_waiting(e, now);
	taken = pacer_take(&e->pacer, now, limit, e->intended + e->waiting, e->burst - e->waiting, &skipped);
	e->counts.intended += taken + skipped;
	e->counts.unsent += skipped;
	e->waiting += taken;
	if (e->waiting > 0)
		e->waiting -= send_burst(e, GEN_MIXED, now, e->waiting, true);
	return e->waiting == 0 && pacer_next(&e->pacer) >= limit;
}

/* The rate of packets for cold queues follows the rate of polls. */
static __rte_noinline void look_at_queue_polls(struct gen_engine *e, uint64_t now)
{
	if (!gen_queue_polls_look(&e->queue_polls, now))
		return;
	if (e->queue_polls.per_s > 0)
		pacer_set_mean(&e->pacer, now,
		               (double)e->queue_polls.tsc_hz / (e->queue_polls.per_s * e->cold_per_poll));
	else
		pacer_hold(&e->pacer);
}

static __rte_noinline void send_cold_due(struct gen_engine *e, uint64_t now, uint64_t limit)
{
	uint64_t intended[GEN_BURST_MAX], skipped = 0;
	unsigned int sent;

	e->cold_due += pacer_take(&e->pacer, now, limit, intended, e->burst - e->cold_due, &skipped);
	e->counts.cold_unsent += skipped;
	if (e->cold_due == 0)
		return;
	sent = send_burst(e, GEN_COLD, now, e->cold_due, false);
	e->cold_due -= sent;
	e->counts.cold_sent += sent;
	e->counts.intended += sent;
}

/* Send a burst to the next hot queue, after what is due for cold ones. */
static __rte_always_inline void send_backlog(struct gen_engine *e, uint64_t now, uint64_t limit)
{
	if (e->cold_due > 0 || pacer_next(&e->pacer) <= now)
		send_cold_due(e, now, limit);
	if (unlikely(now >= e->queue_polls.next_tsc) && e->cold_per_poll > 0)
		look_at_queue_polls(e, now);
	if (likely(e->traffic.lists[GEN_HOT].count > 0))
		e->counts.intended += send_burst(e, GEN_HOT, now, e->burst, false);
}

static __rte_always_inline void receive_frame(struct gen_engine *e, const struct rte_mbuf *mbuf,
                                              uint64_t arrival)
{
	const uint64_t begin = e->trial->begin_tsc;
	struct packet_stamp stamp;

	if (unlikely(!packet_read(mbuf, e->mark, e->senders_n, &stamp) || stamp.flow >= e->flows)) {
		if (e->stamps.every_ns == 0 || !gen_stamps_take(&e->stamps, mbuf, arrival))
			e->counts.rx_foreign++;
		return;
	}
	e->counts.rx_packets++;
	e->counts.rx_bytes += mbuf->pkt_len;
	sequence_record(e->received[stamp.sender], stamp.sequence, stamp.flow);
	if (begin + stamp.intended < e->trial->start_tsc || begin + stamp.intended >= e->trial->end_tsc)
		return;
	histogram_record(&e->latency_intended_ns, to_ns(e, arrival - begin - stamp.intended));
	histogram_record(&e->latency_sent_ns, to_ns(e, arrival - begin - stamp.intended - stamp.lateness));
}

/* Returns the number of frames. */
static __rte_always_inline unsigned int receive(struct gen_engine *e)
{
	struct rte_mbuf *mbufs[GEN_RX_BURST];
	unsigned int received = 0;

	for (unsigned int queue = e->rx_queue; queue < e->rx_queues; queue += e->senders_n) {
		const uint16_t n = rte_eth_rx_burst(e->rx_port, (uint16_t)queue, mbufs, GEN_RX_BURST);

		if (n == 0)
			continue;
		const uint64_t arrival = rte_rdtsc();
		for (uint16_t i = 0; i < n; i++)
			receive_frame(e, mbufs[i], arrival);
		rte_pktmbuf_free_bulk(mbufs, n);
		received += n;
	}
	return received;
}

static void nap(const struct gen_engine *e)
{
	const struct timespec length = {.tv_nsec = (long)e->sleep_ns};

	nanosleep(&length, NULL);
}

/* The sleep is no gap: nothing was due meanwhile. */
static __rte_noinline void sleep_between(struct gen_engine *e, bool receives)
{
	while (receives && receive(e) > 0)
		;
	nap(e);
	e->last_iteration_tsc = rte_rdtsc();
}

enum sending { PACED, SATURATED, BACKLOG };

/* Send until `limit`. Returns the TSC at which everything before `limit` was handled, or 0 for an early stop. */
static __rte_always_inline uint64_t send_until(struct gen_engine *e, uint64_t limit, const enum sending how,
                                               const bool receives)
{
	for (;;) {
		const uint64_t now = begin_iteration(e);

		if (unlikely(trial_phase(e->trial) != TRIAL_RUN))
			return 0;
		if (how == PACED) {
			if (send_due(e, now, limit) && now >= limit)
				return now;
		} else {
			if (now >= limit)
				return now;
			if (how == BACKLOG)
				send_backlog(e, now, limit);
			else
				e->counts.intended += send_burst(e, GEN_MIXED, now, e->burst, false);
		}
		if (receives)
			receive(e);
		if (unlikely(now >= e->stamps.next_tsc))
			gen_stamps_send(&e->stamps, now);
		if (unlikely(e->sleep_ns != 0))
			sleep_between(e, receives);
	}
}

uint64_t gen_gap_over_start(struct gen_engine *e, uint64_t gap, uint64_t end_tsc)
{
	const uint64_t inside = RTE_MIN(gap, end_tsc - e->trial->start_tsc);

	if (inside <= 100 * e->cycles_us)
		return 0;
	e->at_open.gaps_over_1us--;
	e->at_open.gaps_over_10us--;
	e->at_open.gaps_over_100us--;
	e->at_open.cycles_over_100us -= inside;
	return inside;
}

static void open_window(struct gen_engine *e, uint64_t now)
{
	e->at_open = e->counts;
	e->longest_gap = e->last_gap_end_tsc == now ? gen_gap_over_start(e, e->last_gap, now) : 0;
	e->queue_polls_at_open = gen_queue_polls_count(&e->queue_polls, now);
	e->in_window = true;
	atomic_store(&e->opened_tsc, now);
}

static void close_window(struct gen_engine *e)
{
	const uint64_t now = rte_rdtsc();

	e->at_close = e->counts;
	e->queue_polls_at_close = gen_queue_polls_count(&e->queue_polls, now);
	e->in_window = false;
	atomic_store(&e->closed_tsc, now);
}

/* After an early stop, slots whose time has come are unsent. */
static void give_up_slots(struct gen_engine *e, uint64_t now)
{
	const uint64_t due = pacer_skip_until(&e->pacer, now);

	e->counts.intended += due;
	e->counts.unsent += due + e->waiting;
	e->waiting = 0;
}

static __rte_always_inline void send_trial(struct gen_engine *e, const enum sending how, const bool receives)
{
	uint64_t now = send_until(e, e->trial->start_tsc, how, receives);

	if (now != 0) {
		open_window(e, now);
		now = send_until(e, e->trial->end_tsc, how, receives);
	}
	if (now == 0 && how == PACED)
		give_up_slots(e, RTE_MIN(rte_rdtsc(), e->trial->end_tsc));
	if (e->in_window)
		close_window(e);
}

/* The loop in its six forms, chosen once, so that nothing is decided per packet. */
#define SEND_LOOP(name, how, receives)                                                                       \
	static void name(struct gen_engine *e)                                                               \
	{                                                                                                    \
		send_trial(e, how, receives);                                                                \
	}

SEND_LOOP(send_paced, PACED, false)
SEND_LOOP(send_paced_and_receive, PACED, true)
SEND_LOOP(send_saturated, SATURATED, false)
SEND_LOOP(send_saturated_and_receive, SATURATED, true)
SEND_LOOP(keep_backlogged, BACKLOG, false)
SEND_LOOP(keep_backlogged_and_receive, BACKLOG, true)

static enum sending sending_of(const struct gen_engine *e)
{
	if (!e->saturate)
		return PACED;
	return e->backlog ? BACKLOG : SATURATED;
}

/* Return whether a frame may still come whose latency or order would be recorded. */
static bool is_expecting(const struct gen_engine *e)
{
	uint64_t sent = 0, arrived = 0;

	for (unsigned int i = 0; i < e->senders_n && e->rx_port != NO_PORT; i++) {
		const struct gen_engine *sender = e->senders[i];

		sent += __atomic_load_n(&sender->sequence, __ATOMIC_RELAXED);
		for (unsigned int from = 0; from < e->senders_n; from++)
			arrived += __atomic_load_n(&sender->received[from]->unique, __ATOMIC_RELAXED);
	}
	return arrived < sent;
}

/* Leave the CPU to the main lcore, which may share it, once nothing is measured any more: not while frames are on their way. */
static void drain(struct gen_engine *e)
{
	while (trial_phase(e->trial) != TRIAL_OVER) {
		if (e->rx_port != NO_PORT)
			receive(e);
		if (e->sleep_ns != 0)
			nap(e);
		else if (is_expecting(e))
			rte_pause();
		else
			sched_yield();
	}
}

void gen_engine_run(struct gen_engine *e)
{
	static void (*const loops[][2])(struct gen_engine *) = {
	        [PACED] = {send_paced, send_paced_and_receive},
	        [SATURATED] = {send_saturated, send_saturated_and_receive},
	        [BACKLOG] = {keep_backlogged, keep_backlogged_and_receive},
	};
	const bool receives = e->rx_port != NO_PORT;

	while (rte_rdtsc() < e->trial->begin_tsc && trial_phase(e->trial) == TRIAL_RUN)
		rte_pause();
	e->last_iteration_tsc = rte_rdtsc();
	loops[sending_of(e)][receives](e);
	trial_wake(e->trial);
	drain(e);
	rte_pktmbuf_free_bulk(e->mbufs, e->held);
	e->held = 0;
}
