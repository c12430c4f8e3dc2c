/* SPDX-License-Identifier: BSD-3-Clause */
#include "calibrate.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include "cycles.h"
#include "fields.h"
#include "lcore.h"
#include "median.h"
#include "event.h"
#include "receive_send.h"

#define ROUNDS       61
#define QUICK_ROUNDS 15
#define CLOCK_READS  2000
#define WAITS        64
#define WAIT_CYCLES  500
#define ROUND_POLLS  8192   /* at least; in whole sweeps */
#define LOOP_CYCLES  500000 /* of a round of the real loop: several events long */
#define WARM_PARTS   16

struct costs {
	struct median tsc_read;
	struct median tsc_read_serialised;
	struct median stamp;
	struct median empty_poll_overlapped;
	struct median empty_poll_serialised;
	struct median idle_iteration;
	struct median sweep;
};

struct job {
	struct poller *poller;
	uint32_t queues;
	unsigned int rounds;
	uint32_t
	        most_left; /* packets of an earlier trial: more come only from a port that makes them itself */
	struct costs costs;
	const char *error;
	void (*measure)(struct job *job);
};

/* Poll as the loops do and free what comes. Return the number of packets: a round with packets is discarded. */
static __rte_always_inline uint16_t poll_once(struct poller *p, enum poller_source source, uint32_t queue)
{
	struct rte_mbuf *packets[ACCOUNT_BURST_MAX];
	uint16_t n;

	if (source == SOURCE_RING)
		n = receive_ring(p, (uint16_t)queue, packets);
	else if (source == SOURCE_LOCKED)
		n = receive_locked(p, (uint16_t)queue, packets);
	else if (source == SOURCE_TRYLOCK)
		n = receive_trylock(p, (uint16_t)queue, packets);
	else if (source == SOURCE_COREC)
		n = receive_corec(p, (uint16_t)queue, packets);
	else
		n = receive_alone(p, (uint16_t)queue, packets);
	if (unlikely(n))
		rte_pktmbuf_free_bulk(packets, n);
	return n;
}

enum between { BETWEEN_NOTHING, BETWEEN_STAMP, BETWEEN_FENCE };

static __rte_always_inline uint32_t sweeps_of(const struct job *job, enum poller_source source,
                                              enum between between, uint32_t sweeps)
{
	struct poller *p = job->poller;
	const uint32_t end = p->first_queue + job->queues * p->queue_step;
	uint32_t packets = 0;

	for (uint32_t s = 0; s < sweeps; s++) {
		for (uint32_t q = p->first_queue; q < end; q += p->queue_step) {
			packets += poll_once(p, source, q);
			if (between == BETWEEN_STAMP) {
				uint64_t stamp = cycles_stamp();

				__asm__ volatile(
				        ""
				        : "+r"(stamp)); /* keeps the stamp although its value is unused */
			} else if (between == BETWEEN_FENCE) {
				__asm__ volatile("lfence" ::: "memory");
			}
		}
	}
	return packets;
}

/* Specialised by source, like the loops. */
static __rte_always_inline uint32_t sweeps_between(const struct job *job, enum between between,
                                                   uint32_t sweeps)
{
	switch (job->poller->source) {
	case SOURCE_RING:
		return sweeps_of(job, SOURCE_RING, between, sweeps);
	case SOURCE_LOCKED:
		return sweeps_of(job, SOURCE_LOCKED, between, sweeps);
	case SOURCE_TRYLOCK:
		return sweeps_of(job, SOURCE_TRYLOCK, between, sweeps);
	case SOURCE_COREC:
		return sweeps_of(job, SOURCE_COREC, between, sweeps);
	default:
		return sweeps_of(job, SOURCE_RX_QUEUES, between, sweeps);
	}
}

static __rte_noinline uint32_t plain_sweeps(const struct job *job, uint32_t sweeps)
{
	return sweeps_between(job, BETWEEN_NOTHING, sweeps);
}

static __rte_noinline uint32_t stamped_sweeps(const struct job *job, uint32_t sweeps)
{
	return sweeps_between(job, BETWEEN_STAMP, sweeps);
}

static __rte_noinline uint32_t fenced_sweeps(const struct job *job, uint32_t sweeps)
{
	return sweeps_between(job, BETWEEN_FENCE, sweeps);
}

/* Return the cycles per poll of a round, or -1 if packets came. */
static double time_sweeps(const struct job *job, uint32_t (*sweep)(const struct job *, uint32_t),
                          uint32_t sweeps)
{
	const uint64_t start = cycles_serialised();
	const uint32_t packets = sweep(job, sweeps);
	const uint64_t cycles = cycles_serialised() - start;

	return packets ? -1 : (double)cycles / ((double)sweeps * job->queues);
}

static double time_clock(void)
{
	const uint64_t start = cycles_serialised();

	for (int i = 0; i < CLOCK_READS; i++) {
		uint64_t stamp = cycles_stamp();

		__asm__ volatile("" : "+r"(stamp));
	}
	return (double)(cycles_serialised() - start) / CLOCK_READS;
}

static double time_serialised_clock(void)
{
	const uint64_t start = cycles_serialised();

	for (int i = 0; i < CLOCK_READS; i++) {
		uint64_t stamp = cycles_serialised();

		__asm__ volatile("" : "+r"(stamp));
	}
	return (double)(cycles_serialised() - start) / CLOCK_READS;
}

static double time_fence(void)
{
	const uint64_t start = cycles_serialised();

	for (int i = 0; i < CLOCK_READS; i++)
		__asm__ volatile("lfence" ::: "memory");
	return (double)(cycles_serialised() - start) / CLOCK_READS;
}

/* Poll before the first round, and free what an earlier trial left. Return false if packets do not end. */
static bool warm_up(const struct job *job, uint32_t sweeps)
{
	uint32_t packets = 0;

	for (int i = 0; i < WARM_PARTS && packets <= job->most_left; i++)
		packets += plain_sweeps(job, (sweeps + WARM_PARTS - 1) / WARM_PARTS);
	return packets <= job->most_left;
}

/* Alternate the two kinds of round, so that drift of the machine affects both. Return false if packets came. */
static bool measure_polls(struct job *job, bool all)
{
	const uint32_t sweeps = (ROUND_POLLS + job->queues - 1) / job->queues;
	double plain[ROUNDS], stamp[ROUNDS], fenced[ROUNDS], sweep[ROUNDS];

	if (!warm_up(job, sweeps))
		return false;
	for (unsigned int i = 0; i < job->rounds; i++) {
		/* measured in every round: a host gap in a single measurement would shift the median of all rounds */
		const double fence = all ? time_fence() : 0;

		plain[i] = time_sweeps(job, plain_sweeps, sweeps);
		stamp[i] = time_sweeps(job, stamped_sweeps, sweeps) - plain[i];
		fenced[i] = all ? time_sweeps(job, fenced_sweeps, sweeps) - fence : 0;
		if (plain[i] < 0 || stamp[i] + plain[i] < 0 || fenced[i] + fence < 0)
			return false;
		sweep[i] = plain[i] * job->queues;
	}
	job->costs.empty_poll_overlapped = median_of(plain, job->rounds);
	job->costs.stamp = median_of(stamp, job->rounds);
	job->costs.empty_poll_serialised = median_of(fenced, job->rounds);
	job->costs.sweep = median_of(sweep, job->rounds);
	return true;
}

static void measure_clock(struct job *job)
{
	double plain[ROUNDS], serialised[ROUNDS];

	for (unsigned int i = 0; i < job->rounds; i++) {
		plain[i] = time_clock();
		serialised[i] = time_serialised_clock();
	}
	job->costs.tsc_read = median_of(plain, job->rounds);
	job->costs.tsc_read_serialised = median_of(serialised, job->rounds);
}

static bool measure_loop(struct job *job)
{
	struct poller *p = job->poller;
	const uint32_t end_queue = p->end_queue;
	const uint16_t queues = p->queues;
	double iteration[ROUNDS];
	uint64_t packets = 0;

	p->queues = (uint16_t)job->queues;
	p->end_queue = (uint16_t)(p->first_queue + job->queues * p->queue_step);
	for (unsigned int i = 0; i < job->rounds; i++) {
		const struct account *a = poll_window(p, p->loop, LOOP_CYCLES);

		iteration[i] = (double)(a->last_tsc - a->first_tsc) / (double)RTE_MAX(a->sweeps, UINT64_C(1));
		packets += a->rx_packets;
	}
	p->queues = queues;
	p->end_queue = (uint16_t)end_queue;
	job->costs.idle_iteration = median_of(iteration, job->rounds);
	return packets == 0;
}

/*
 * Keep what the accounting of trials needs: the cost of a stamp in the loop, of an empty poll in that loop, and of
 * one in a bare loop.
 */
static void keep_costs(const struct job *job)
{
	struct poller *p = job->poller;

	p->stamp_cycles = RTE_MAX(job->costs.stamp.median, 0.0);
	/*
	 * a notified loop with nothing to do waits, so its loop gives no cost of an empty poll; a loop that waits
	 * after empty sweeps does not wait during calibration
	 */
	p->empty_poll_cycles = p->source == SOURCE_NOTIFIED ? job->costs.empty_poll_overlapped.median
	                                                    : job->costs.idle_iteration.median / job->queues;
	p->overlapped_poll_cycles = job->costs.empty_poll_overlapped.median;
}

/* Runs on the lcore: measure all costs. */
static void measure_all(struct job *job)
{
	measure_clock(job);
	if (!measure_polls(job, true) || !measure_loop(job))
		job->error = "packets arrived: calibrate without traffic";
}

/* Measure what a wait takes beyond the time between its own two stamps, mostly the exit from its loop. */
static double time_waits(struct poller *p)
{
	const uint64_t before = p->aside_cycles;
	const uint64_t start = cycles_serialised();

	for (int i = 0; i < WAITS; i++) {
		p->owed_cycles = WAIT_CYCLES;
		wait_since(p, cycles_stamp());
	}
	return (double)(cycles_serialised() - start - (p->aside_cycles - before)) / WAITS;
}

static void measure_wait(struct job *job)
{
	double cost[ROUNDS];

	job->poller->wait_cost_cycles = 0;
	for (unsigned int i = 0; i < job->rounds; i++)
		cost[i] = time_waits(job->poller);
	job->poller->wait_cost_cycles = (int64_t)median_of(cost, job->rounds).median;
}

/*
 * Runs on the lcore: measure what its loop needs. If the port is not silent, the cost of the clock stands in for that
 * of a stamp.
 */
static void measure_stamps(struct job *job)
{
	measure_wait(job);
	if (job->poller->source != SOURCE_MADE && measure_polls(job, false) && measure_loop(job)) {
		keep_costs(job);
		return;
	}
	measure_clock(job);
	job->poller->stamp_cycles = job->costs.tsc_read.median;
	job->poller->empty_poll_cycles = job->poller->overlapped_poll_cycles = 0;
}

/* The number of running jobs; the neighbour's lcore spins meanwhile. */
static atomic_uint running;

static int spin_beside(void *arg)
{
	RTE_SET_USED(arg);
	while (atomic_load(&running) != 0)
		cycles_stamp();
	return 0;
}

static int run(void *arg)
{
	struct job *job = arg;

	job->measure(job);
	atomic_fetch_sub(&running, 1);
	return 0;
}

static void run_jobs(struct job *jobs, unsigned int n, unsigned int neighbour)
{
	atomic_store(&running, n);
	if (neighbour != LCORE_ID_ANY)
		rte_eal_remote_launch(spin_beside, NULL, neighbour);
	for (unsigned int i = 0; i < n; i++)
		rte_eal_remote_launch(run, &jobs[i], jobs[i].poller->lcore);
	lcore_wait_all();
}

void calibrate_stamps(struct poller *const *pollers, unsigned int n, unsigned int neighbour,
                      uint32_t most_left)
{
	static struct job jobs[RTE_MAX_LCORE];
	bool share = false;

	for (unsigned int i = 0; i < n; i++) {
		jobs[i] = (struct job){.poller = pollers[i],
		                       .queues = pollers[i]->queues,
		                       .rounds = QUICK_ROUNDS,
		                       .most_left = most_left,
		                       .measure = measure_stamps};
		share |= poller_shares_queues(pollers[i]);
	}
	/* one after another if they would poll the same queues */
	for (unsigned int i = 0; i < n; i += share ? 1 : n)
		run_jobs(&jobs[i], share ? 1 : n, neighbour);
}

static json_t *costs_json(const struct costs *c)
{
	const struct {
		const char *name;
		const struct median *cost;
	} all[] = {
	        {"tsc_read_cycles", &c->tsc_read},
	        {"tsc_read_serialised_cycles", &c->tsc_read_serialised},
	        {"stamp_cycles", &c->stamp},
	        {"empty_poll_overlapped_cycles", &c->empty_poll_overlapped},
	        {"empty_poll_serialised_cycles", &c->empty_poll_serialised},
	        {"idle_iteration_cycles", &c->idle_iteration},
	        {"sweep_cycles", &c->sweep},
	};
	json_t *object = json_object();

	for (unsigned int i = 0; i < RTE_DIM(all); i++)
		json_object_set_new(object, all[i].name, median_to_json(all[i].cost));
	return object;
}

json_t *calibrate(struct poller *poller, unsigned int neighbour, json_t *request, struct node_error *err)
{
	static struct job job;
	uint32_t queues;

	if (!poller) {
		node_fail(err, "", "no DUT that receives is configured");
		return NULL;
	}
	queues = poller->queues;
	const struct field fields[] = {
	        FIELDS_OF_REQUEST, {"queues", FIELD_NUMBER, 0, sizeof(queues), .min = 1, .max = queues}, {0}};

	if (fields_read(request, "", fields, &queues, err))
		return NULL;
	job = (struct job){.poller = poller,
	                   .queues = queues,
	                   .rounds = ROUNDS,
	                   .most_left = UINT32_MAX,
	                   .measure = measure_all};
	run_jobs(&job, 1, neighbour);
	if (job.error) {
		node_fail(err, "", "%s", job.error);
		return NULL;
	}
	keep_costs(&job);
	return costs_json(&job.costs);
}
