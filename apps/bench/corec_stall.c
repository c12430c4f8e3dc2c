/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two threads poll one ring by corec_protocol.h; from time to time the first one stalls between its reservation and READ_DONE
 * (benchmarks/corec_stall.py, tests/test_corec.py). A frame is only work: a thread spins for a fixed time per frame. A polling
 * thread fills the ring first, as the NIC would.
 *
 * usage: corec-stall PLACES WORK_NS STALL_NS|stuck EVERY_NS WINDOW_NS
 * STALL_NS 0: never; `stuck`: until the other has found nothing many times in a row. Prints, for the window, `FRAMES CPU_NS` of
 * both threads, then the number of stalls, their total length (ns), and the least and the most descriptors that were reserved
 * when one ended, counted from the first of the stalled batch. Exit codes: 0 done, 1 no thread available, 2 bad usage.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../lib/argument.h"
#include "../pmd/corec_atomics.h"

#define BURST       32
#define PLACES_MAX  65536
#define STUCK_POLLS 1000
#define NS_PER_S    UINT64_C(1000000000)
#define LIMIT_NS    (60 * NS_PER_S)

struct poller {
	alignas(128) uint64_t frames;
	uint64_t idle; /* polls in a row that found nothing */
	uint64_t next_stall_ns;
	uint64_t stalls, stalled_ns, least, most;
	uint64_t cpu_ns;
	unsigned int number;
	bool begins; /* a batch */
};

typedef uint64_t corec_frame;
typedef struct poller *corec_how;

#include "../pmd/corec_protocol.h"

static struct {
	uint64_t places, work_ns, stall_ns, every_ns, window_ns;
	bool stuck;
	uint64_t end_ns;
} settings;

static struct corec_queue queue;
static corec_u16 done[PLACES_MAX];
static alignas(COREC_APART_BYTES) corec_u64 tail;
static uint64_t dd[PLACES_MAX];
static struct poller pollers[2];
static pthread_barrier_t ready;
/* State of the thread that fills the ring. */
static struct {
	alignas(128) uint32_t busy;
	uint64_t filled;
} nic;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline uint32_t corec_filled(const struct corec_queue *q, uint32_t place, uint32_t n)
{
	uint32_t found = 0;

	(void)q;
	while (found < n && __atomic_load_n(&dd[place + found], __ATOMIC_ACQUIRE) != 0)
		found++;
	return found;
}

static inline uint32_t corec_get_buffers(struct corec_queue *q, corec_frame *buffers, uint32_t n)
{
	(void)q;
	(void)buffers;
	return n;
}

static inline void corec_give_back(struct corec_queue *q, corec_frame *buffers, uint32_t n)
{
	(void)q;
	(void)buffers;
	(void)n;
}

/* Return how many descriptors are reserved from `place` on, 1 to all of the ring. */
static uint64_t claimed_from(uint32_t place)
{
	const uint64_t claimed = (corec_load_relaxed(&queue.taken) - place) & queue.mask;

	return claimed ? claimed : settings.places;
}

/* The reservation is made and nothing is marked as done. `place` is that of its first descriptor. */
static void stall(struct poller *p, uint32_t place)
{
	const struct poller *other = &pollers[!p->number];
	const uint64_t stuck_at = __atomic_load_n(&other->idle, __ATOMIC_RELAXED) + STUCK_POLLS;
	const uint64_t begin_ns = now_ns();
	uint64_t now;

	do
		now = now_ns();
	while (now < settings.end_ns &&
	       (settings.stuck ? __atomic_load_n(&other->idle, __ATOMIC_RELAXED) < stuck_at
	                       : now - begin_ns < settings.stall_ns));
	p->next_stall_ns = now + settings.every_ns;
	if (now >= settings.end_ns)
		return; /* cut short */
	const uint64_t claimed = claimed_from(place);

	p->stalled_ns += now - begin_ns;
	p->least = p->stalls == 0 || claimed < p->least ? claimed : p->least;
	p->most = claimed > p->most ? claimed : p->most;
	p->stalls++;
}

static inline void corec_swap(struct corec_queue *q, uint32_t place, corec_frame *frames, uint32_t n,
                              corec_how how)
{
	(void)q;
	if (how->begins && how->next_stall_ns && now_ns() >= how->next_stall_ns)
		stall(how, place);
	how->begins = false;
	for (uint32_t i = 0; i < n; i++) {
		frames[i] = place + i;
		__atomic_store_n(&dd[frames[i]], 0, __ATOMIC_RELAXED);
	}
}

static inline void corec_ring_doorbell(struct corec_queue *q, uint64_t tail)
{
	(void)q;
	(void)tail;
}

/* Give every posted descriptor a frame. A thread that finds the other doing this continues. */
static void fill_ring(void)
{
	if (__atomic_exchange_n(&nic.busy, 1, __ATOMIC_ACQUIRE))
		return;
	const uint64_t tail = corec_load_acquire(queue.tail);

	for (; nic.filled != tail; nic.filled++)
		__atomic_store_n(&dd[nic.filled & queue.mask], 1, __ATOMIC_RELEASE);
	__atomic_store_n(&nic.busy, 0, __ATOMIC_RELEASE);
}

static void work(uint64_t ns)
{
	const uint64_t begin_ns = ns ? now_ns() : 0;

	while (ns && now_ns() - begin_ns < ns)
		;
}

static void bind_to(unsigned int number)
{
	cpu_set_t all, one;
	int cpu = 0;

	/* the first CPU that is available, or the last one */
	if (sched_getaffinity(0, sizeof(all), &all) < 0)
		return;
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &all))
			continue;
		cpu = i;
		if (number == 0)
			break;
	}
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

static void *poll_ring(void *argument)
{
	struct poller *p = argument;
	corec_frame frames[BURST];

	bind_to(p->number);
	pthread_barrier_wait(&ready);
	const uint64_t begin_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	if (p->number == 0 && (settings.stall_ns || settings.stuck))
		p->next_stall_ns = now_ns() + settings.every_ns;
	while (now_ns() < settings.end_ns) {
		fill_ring();
		p->begins = true;
		const uint32_t n = corec_poll(&queue, frames, BURST, p);

		__atomic_store_n(&p->frames, p->frames + n, __ATOMIC_RELAXED);
		__atomic_store_n(&p->idle, n ? 0 : p->idle + 1, __ATOMIC_RELAXED);
		work(n * settings.work_ns);
	}
	p->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_cpu_ns;
	return NULL;
}

static bool read_settings(int argc, char *argv[])
{
	if (argc != 6)
		return false;
	settings.stuck = strcmp(argv[3], "stuck") == 0;
	return argument_number(argv[1], 2, PLACES_MAX, &settings.places) &&
	       (settings.places & (settings.places - 1)) == 0 &&
	       argument_number(argv[2], 0, NS_PER_S, &settings.work_ns) &&
	       (settings.stuck || argument_number(argv[3], 0, NS_PER_S, &settings.stall_ns)) &&
	       argument_number(argv[4], 1, LIMIT_NS, &settings.every_ns) &&
	       argument_number(argv[5], 1, LIMIT_NS, &settings.window_ns);
}

int main(int argc, char *argv[])
{
	pthread_t other;

	if (!read_settings(argc, argv)) {
		fprintf(stderr, "usage: corec-stall PLACES WORK_NS STALL_NS|stuck EVERY_NS WINDOW_NS "
		                "(PLACES: a power of two up to 65536; times up to 1 s, the last two 60 s)\n");
		return 2;
	}
	tail = settings.places;
	queue = (struct corec_queue){.done = done, .tail = &tail, .mask = (uint32_t)settings.places - 1};
	pollers[1].number = 1;
	pthread_barrier_init(&ready, NULL, 2);
	settings.end_ns = now_ns() + settings.window_ns;
	if (pthread_create(&other, NULL, poll_ring, &pollers[1]) != 0) {
		fprintf(stderr, "corec-stall: no second thread\n");
		return 1;
	}
	poll_ring(&pollers[0]);
	pthread_join(other, NULL);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, pollers[0].frames, pollers[0].cpu_ns,
	       pollers[1].frames, pollers[1].cpu_ns);
	printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", pollers[0].stalls, pollers[0].stalled_ns,
	       pollers[0].least, pollers[0].most);
	return 0;
}
