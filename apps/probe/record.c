/* SPDX-License-Identifier: BSD-3-Clause */
#include "record.h"

#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "cycles.h"
#include "dpdk.h"

#define INTERRUPTION_NS     10000
#define INTERRUPTION_FACTOR 4       /* times the upper end of the bucket with the median of the class */
#define UNKNOWN_LIMIT_NS    1000000 /* while fewer than KNOWN_GAPS gaps of a class have been seen */
#define KNOWN_GAPS          16
#define CLOSE_LIMIT_NS      5000000
#define CLOSE_LOOK_NS       20000
#define CALIBRATION_ROUNDS  64
#define CALIBRATION_CALLS   256

/* The open window: its number, then two flags. 0: none is open. */
#define WINDOW_DOUBLED UINT64_C(1)
#define WINDOW_CLOSING UINT64_C(2)
#define WINDOW_ONE     UINT64_C(4)

struct probe_thread probe_threads[PROBE_THREADS];
_Static_assert(offsetof(struct probe_gaps, histogram) == PROBE_GAPS_SUMS * sizeof(uint64_t),
               "sums before the histogram");

static uint32_t threads_asked; /* for a place in probe_threads */
static uint64_t windows;
static uint64_t open_window __attribute__((aligned(64)));
static struct probe_thread no_place; /* of threads beyond PROBE_THREADS */
/* A dynamic linker's reserve of static TLS has room for 8 bytes; the general model would cost a call per poll. */
static __thread struct probe_thread *self __attribute__((tls_model("initial-exec")));

uint32_t probe_threads_count(void)
{
	const uint32_t asked = __atomic_load_n(&threads_asked, __ATOMIC_ACQUIRE);

	return asked < PROBE_THREADS ? asked : PROBE_THREADS;
}

uint32_t probe_threads_lost(void)
{
	return __atomic_load_n(&threads_asked, __ATOMIC_ACQUIRE) - probe_threads_count();
}

static __attribute__((noinline, cold)) struct probe_thread *find_place(void)
{
	const uint32_t index = __atomic_fetch_add(&threads_asked, 1, __ATOMIC_ACQ_REL);

	self = index < PROBE_THREADS ? &probe_threads[index] : &no_place;
	if (self == &no_place)
		return self;
	self->number = index + 1;
	self->lcore_index = rte_lcore_index(-1);
	__atomic_store_n(&self->tid, gettid(), __ATOMIC_RELEASE);
	for (int copy = 0; copy < PROBE_COPIES; copy++)
		for (int class = 0; class < PROBE_CLASSES; class++)
			self->sums[copy].gaps[class].limit_cycles =
			        cycles_of_ns(UNKNOWN_LIMIT_NS, rte_get_tsc_hz());
	return self;
}

static inline unsigned int log2_of(uint64_t x, unsigned int last)
{
	const unsigned int log2 = 63 - (unsigned int)__builtin_clzll(x | 1);

	return log2 < last ? log2 : last;
}

static inline void count_burst(struct probe_queue *queue, const struct probe_thread *thread, uint16_t count)
{
	if (unlikely(queue->thread != thread->number)) {
		queue->moves += queue->thread != 0;
		queue->thread = thread->number;
	}
	queue->polls++;
	if (count == 0)
		return;
	queue->packets += count;
	queue->sizes[log2_of(count, PROBE_BURST_SIZES - 1)]++;
}

static inline void add_products(struct probe_gaps *gaps, uint64_t before, uint64_t now, uint64_t cycles)
{
	gaps->before += before;
	gaps->now += now;
	gaps->before_squares += before * before;
	gaps->now_squares += now * now;
	gaps->before_now += before * now;
	gaps->before_cycles += before * cycles;
	gaps->now_cycles += now * cycles;
}

/* Returns whether the gap was an interruption. */
static inline bool add_gap(struct probe_gaps *gaps, uint64_t before, uint64_t now, uint64_t cycles)
{
	gaps->histogram[log2_of(cycles, PROBE_GAP_BUCKETS - 1)]++;
	if (unlikely(cycles > gaps->longest_cycles))
		gaps->longest_cycles = cycles;
	if (unlikely(cycles > gaps->limit_cycles) &&
	    cycles > gaps->limit_cycles + (before + now) * gaps->packet_cycles) {
		gaps->interruptions++;
		gaps->interrupted_cycles += cycles;
		return true;
	}
	gaps->count++;
	gaps->cycles += cycles;
	gaps->squares += cycles * cycles;
	if (before | now)
		add_products(gaps, before, now, cycles);
	return false;
}

/* An iteration ends when its first queue is polled again; one with an interruption is left out. */
static inline void follow_iteration(struct probe_sums *sums, const struct probe_queue *queue, uint64_t tsc,
                                    bool interrupted)
{
	if (likely(queue != sums->anchor && !interrupted))
		return;
	if (queue == sums->anchor && !interrupted) {
		sums->iterations++;
		sums->iteration_cycles += tsc - sums->anchor_tsc;
	}
	sums->anchor = queue;
	sums->anchor_tsc = tsc;
}

static inline void begin_window(struct probe_sums *sums, const struct probe_queue *queue, uint64_t window,
                                uint64_t tsc, uint16_t count)
{
	sums->last_tsc = tsc;
	sums->last_packets = count;
	sums->anchor = queue;
	sums->anchor_tsc = tsc;
	sums->windows++;
	__atomic_store_n(&sums->window, window, __ATOMIC_RELAXED);
}

static inline struct probe_sums *sums_of(struct probe_thread *thread, const struct probe_queue *queue,
                                         uint64_t window)
{
	return &thread->sums[queue->shadow ? PROBE_SHADOW : window & WINDOW_DOUBLED];
}

uint16_t probe_receive(uint16_t port, uint16_t id, struct rte_mbuf **packets, uint16_t count, uint16_t max,
                       void *arg)
{
	const uint64_t flags = __atomic_load_n(&open_window, __ATOMIC_ACQUIRE);
	const uint64_t window = flags & ~WINDOW_CLOSING;
	struct probe_thread *thread = self;
	struct probe_queue *queue = arg;

	(void)port, (void)id, (void)packets;
	if (flags == 0)
		return count;
	if (unlikely(thread == NULL))
		thread = find_place();
	if (unlikely(thread == &no_place))
		return count;

	const uint64_t tsc = cycles_stamp();
	struct probe_sums *sums = sums_of(thread, queue, window);

	if (unlikely(sums->window != window)) {
		if (!(flags & WINDOW_CLOSING))
			begin_window(sums, queue, window, tsc, count);
		return count;
	}
	const uint64_t before = sums->last_packets;
	const bool interrupted =
	        add_gap(&sums->gaps[(before != 0) * 2 + (count != 0)], before, count, tsc - sums->last_tsc);

	sums->packets += count;
	sums->last_tsc = tsc;
	sums->last_packets = count;
	follow_iteration(sums, queue, tsc, interrupted);
	count_burst(queue, thread, count);
	queue->full += count == max;
	if (unlikely(max > thread->most_asked))
		thread->most_asked = max;
	if (unlikely(flags & WINDOW_CLOSING)) {
		sums->finished_windows++;
		__atomic_store_n(&sums->window, 0, __ATOMIC_RELEASE);
	}
	return count;
}

/* Bursts count while a gap of the thread is open, like polls. */
uint16_t probe_send(uint16_t port, uint16_t id, struct rte_mbuf **packets, uint16_t count, void *arg)
{
	const uint64_t window = __atomic_load_n(&open_window, __ATOMIC_ACQUIRE) & ~WINDOW_CLOSING;
	struct probe_thread *thread = self;
	struct probe_queue *queue = arg;

	(void)port, (void)id, (void)packets;
	if (window == 0 || thread == NULL || thread == &no_place)
		return count;

	struct probe_sums *sums = sums_of(thread, queue, window);

	if (sums->window != window)
		return count;
	sums->tx_bursts++;
	sums->tx_packets += count;
	count_burst(queue, thread, count);
	return count;
}

/*
 * Medians come from the single windows of all time, interruptions included. Most polls may return few packets: a full one takes as
 * much longer as it has more of them.
 */
static void set_limits(struct probe_thread *thread, uint64_t tsc_hz)
{
	for (int class = 0; class < PROBE_CLASSES; class++) {
		const struct probe_gaps *gaps = &thread->sums[PROBE_SINGLE].gaps[class];
		const uint64_t *histogram = gaps->histogram;
		const uint64_t packets = gaps->before + gaps->now;
		uint64_t limit = cycles_of_ns(UNKNOWN_LIMIT_NS, tsc_hz), total = 0, below = 0;

		for (int i = 0; i < PROBE_GAP_BUCKETS; i++)
			total += histogram[i];
		if (total >= KNOWN_GAPS) {
			int median = 0;

			for (below = histogram[0]; below < total / 2; below += histogram[median])
				median++;
			limit = cycles_of_ns(INTERRUPTION_NS, tsc_hz) +
			        (INTERRUPTION_FACTOR * UINT64_C(2) << median);
		}
		for (int copy = 0; copy < PROBE_COPIES; copy++) {
			thread->sums[copy].gaps[class].limit_cycles = limit;
			thread->sums[copy].gaps[class].packet_cycles =
			        packets > 0 ? gaps->cycles / packets : 0;
		}
	}
}

void probe_window_open(bool doubled)
{
	for (uint32_t i = 0; i < probe_threads_count(); i++)
		set_limits(&probe_threads[i], rte_get_tsc_hz());
	windows++;
	__atomic_store_n(&open_window, windows * WINDOW_ONE | (doubled ? WINDOW_DOUBLED : 0),
	                 __ATOMIC_RELEASE);
}

static bool gap_is_open(uint64_t window)
{
	for (uint32_t i = 0; i < probe_threads_count(); i++)
		for (int copy = 0; copy < PROBE_COPIES; copy++)
			if (__atomic_load_n(&probe_threads[i].sums[copy].window, __ATOMIC_ACQUIRE) == window)
				return true;
	return false;
}

bool probe_window_close(void)
{
	const uint64_t window = open_window;
	const struct timespec look = {.tv_nsec = CLOSE_LOOK_NS};
	const uint64_t end_tsc = cycles_stamp() + cycles_of_ns(CLOSE_LIMIT_NS, rte_get_tsc_hz());

	__atomic_store_n(&open_window, window | WINDOW_CLOSING, __ATOMIC_RELEASE);
	while (gap_is_open(window)) {
		if (cycles_stamp() > end_tsc)
			return false;
		nanosleep(&look, NULL);
	}
	return true;
}

void probe_window_end(void)
{
	__atomic_store_n(&open_window, 0, __ATOMIC_RELEASE);
}

uint64_t probe_windows(void)
{
	return __atomic_load_n(&windows, __ATOMIC_RELAXED);
}

void probe_calibrate(uint64_t *rx_cycles, uint64_t *tx_cycles)
{
	static struct probe_thread thread = {.number = 1};
	static struct probe_queue queue;
	/* Volatile, so that the compiler calls them as DPDK does. */
	uint16_t (*volatile receive)(uint16_t, uint16_t, struct rte_mbuf **, uint16_t, uint16_t, void *) =
	        probe_receive;
	uint16_t (*volatile send)(uint16_t, uint16_t, struct rte_mbuf **, uint16_t, void *) = probe_send;
	uint64_t shortest[2] = {UINT64_MAX, UINT64_MAX};

	self = &thread;
	set_limits(self, rte_get_tsc_hz());
	__atomic_store_n(&open_window, WINDOW_ONE, __ATOMIC_RELEASE);
	for (int round = 0; round < CALIBRATION_ROUNDS; round++) {
		uint64_t stamps[3] = {cycles_serialised()};

		for (int i = 0; i < CALIBRATION_CALLS; i++)
			receive(0, 0, NULL, 0, 32, &queue);
		stamps[1] = cycles_serialised();
		for (int i = 0; i < CALIBRATION_CALLS; i++)
			send(0, 0, NULL, 32, &queue);
		stamps[2] = cycles_serialised();
		for (int i = 0; i < 2; i++)
			if (stamps[i + 1] - stamps[i] < shortest[i])
				shortest[i] = stamps[i + 1] - stamps[i];
	}
	__atomic_store_n(&open_window, 0, __ATOMIC_RELEASE);
	self = NULL;
	*rx_cycles = shortest[0] / CALIBRATION_CALLS;
	*tx_cycles = shortest[1] / CALIBRATION_CALLS;
}
