/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue_polls.h"

#include <rte_common.h>

#include "dut/dut.h"
#include "ports/ports.h"

#define LOOKS_PER_S 1000

/* 4 sweeps and 1 ms are enough at first; each estimate doubles them, up to these limits. */
#define FIRST_COUNT 4
#define MOST_COUNT  64
#define MOST_LOOKS  8 /* ms: sweeps are booked every 25 us or more, so their number is then known to 1 % */

static bool polls(const struct poller *p, uint16_t port)
{
	return source_reads_rx_queues(p->source) && p->rx_port == port;
}

static uint64_t polls_of(const struct poller *p)
{
	uint64_t sweeps = 0, counted = 0;

	for (int s = 0; s < STAGES; s++) {
		sweeps += __atomic_load_n(&p->accounts[s].sweeps, __ATOMIC_RELAXED);
		counted += __atomic_load_n(&p->accounts[s].polls, __ATOMIC_RELAXED);
	}
	return p->source == SOURCE_NOTIFIED ? counted : sweeps * p->queues;
}

/* Return the mean number of polls per queue of the port, by the DUT lcores of this node since the trial began. */
static double count_here(uint16_t port)
{
	struct poller **pollers;
	const unsigned int n = dut_pollers(&pollers);
	double queue_polls = 0;

	for (unsigned int i = 0; i < n; i++)
		if (polls(pollers[i], port))
			queue_polls += (double)polls_of(pollers[i]);
	return queue_polls / ports_rx_queues(port);
}

static bool is_polled_here(uint16_t port)
{
	struct poller **pollers;
	const unsigned int n = dut_pollers(&pollers);

	for (unsigned int i = 0; i < n; i++)
		if (polls(pollers[i], port))
			return true;
	return false;
}

void gen_queue_polls_begin(struct gen_queue_polls *queue_polls, uint16_t port, uint64_t begin_tsc,
                           uint64_t tsc_hz)
{
	queue_polls->port = port;
	queue_polls->is_counted = is_polled_here(port);
	queue_polls->tsc_hz = tsc_hz;
	queue_polls->begin_tsc = queue_polls->since_tsc = begin_tsc;
	queue_polls->next_tsc = begin_tsc + tsc_hz / LOOKS_PER_S;
	queue_polls->since_count = 0;
	queue_polls->least_count = FIRST_COUNT;
	queue_polls->least_cycles = tsc_hz / LOOKS_PER_S;
	queue_polls->per_s = 0;
}

static bool estimate(struct gen_queue_polls *queue_polls, uint64_t now)
{
	const double count = count_here(queue_polls->port) - queue_polls->since_count;
	const uint64_t cycles = now - queue_polls->since_tsc;

	if (count < queue_polls->least_count || cycles < queue_polls->least_cycles)
		return false;
	queue_polls->per_s = count / ((double)cycles / (double)queue_polls->tsc_hz);
	queue_polls->since_tsc = now;
	queue_polls->since_count += count;
	queue_polls->least_count = RTE_MIN(2 * queue_polls->least_count, (double)MOST_COUNT);
	queue_polls->least_cycles =
	        RTE_MIN(2 * queue_polls->least_cycles, MOST_LOOKS * queue_polls->tsc_hz / LOOKS_PER_S);
	return true;
}

bool gen_queue_polls_look(struct gen_queue_polls *queue_polls, uint64_t now)
{
	const double requested = atomic_load_explicit(&queue_polls->requested_per_s, memory_order_relaxed);

	queue_polls->next_tsc = now + queue_polls->tsc_hz / LOOKS_PER_S;
	if (queue_polls->is_counted)
		return estimate(queue_polls, now);
	if (requested == queue_polls->per_s)
		return false;
	queue_polls->per_s = requested;
	return true;
}

double gen_queue_polls_count(const struct gen_queue_polls *queue_polls, uint64_t now)
{
	if (queue_polls->is_counted)
		return count_here(queue_polls->port);
	return queue_polls->per_s * ((double)(now - queue_polls->begin_tsc) / (double)queue_polls->tsc_hz);
}
