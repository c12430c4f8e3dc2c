/* SPDX-License-Identifier: BSD-3-Clause */
#include "visits.h"

#include <rte_common.h>

#include "dut/dut.h"
#include "ports/ports.h"

#define LOOKS_PER_S 1000

/* 4 sweeps and 1 ms serve at first; with each estimate twice as many, up to these. */
#define FIRST_COUNT 4
#define MOST_COUNT  64
#define MOST_LOOKS  8 /* ms: sweeps are booked every 25 us or more, so their number is known to 1 % then */

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

/* Visits of the port's queues by the DUT lcores of this node since the trial began; the mean of a queue. */
static double count_here(uint16_t port)
{
	struct poller **pollers;
	const unsigned int n = dut_pollers(&pollers);
	double visits = 0;

	for (unsigned int i = 0; i < n; i++)
		if (polls(pollers[i], port))
			visits += (double)polls_of(pollers[i]);
	return visits / ports_rx_queues(port);
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

void gen_visits_begin(struct gen_visits *visits, uint16_t port, uint64_t begin_tsc, uint64_t tsc_hz)
{
	visits->port = port;
	visits->is_counted = is_polled_here(port);
	visits->tsc_hz = tsc_hz;
	visits->begin_tsc = visits->since_tsc = begin_tsc;
	visits->next_tsc = begin_tsc + tsc_hz / LOOKS_PER_S;
	visits->since_count = 0;
	visits->least_count = FIRST_COUNT;
	visits->least_cycles = tsc_hz / LOOKS_PER_S;
	visits->per_s = 0;
}

static bool estimate(struct gen_visits *visits, uint64_t now)
{
	const double count = count_here(visits->port) - visits->since_count;
	const uint64_t cycles = now - visits->since_tsc;

	if (count < visits->least_count || cycles < visits->least_cycles)
		return false;
	visits->per_s = count / ((double)cycles / (double)visits->tsc_hz);
	visits->since_tsc = now;
	visits->since_count += count;
	visits->least_count = RTE_MIN(2 * visits->least_count, (double)MOST_COUNT);
	visits->least_cycles = RTE_MIN(2 * visits->least_cycles, MOST_LOOKS * visits->tsc_hz / LOOKS_PER_S);
	return true;
}

bool gen_visits_look(struct gen_visits *visits, uint64_t now)
{
	const double told = atomic_load_explicit(&visits->told_per_s, memory_order_relaxed);

	visits->next_tsc = now + visits->tsc_hz / LOOKS_PER_S;
	if (visits->is_counted)
		return estimate(visits, now);
	if (told == visits->per_s)
		return false;
	visits->per_s = told;
	return true;
}

double gen_visits_count(const struct gen_visits *visits, uint64_t now)
{
	if (visits->is_counted)
		return count_here(visits->port);
	return visits->per_s * ((double)(now - visits->begin_tsc) / (double)visits->tsc_hz);
}
