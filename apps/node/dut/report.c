/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of the DUT about a window: the object L of docs/internals/node-protocol.md. */
#include "dut.h"
#include "rebalancer.h"
#include "rings.h"
#include "lcore.h"
#include "workload/encryptor.h"
#include "workload/task.h"

static json_t *integer(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *absent(const char *reason)
{
	return json_pack("{s:s}", "absent", reason);
}

/* Timed intervals by block: number, then sums of products in the order of the upper triangle (accounting.h). */
static json_t *timed_intervals_json(const struct account *a)
{
	json_t *blocks = json_array(), *quiet = json_array();

	for (int b = 0; b < ACCOUNT_BLOCKS; b++) {
		json_t *block = json_pack("[I]", (json_int_t)a->blocks[b].timed_intervals);

		for (int i = 0; i < ACCOUNT_PRODUCTS; i++)
			json_array_append_new(block, json_real(a->blocks[b].products[i]));
		json_array_append_new(blocks, block);
		block = json_pack("[I]", (json_int_t)a->blocks[b].quiet_timed_intervals);
		for (int i = 0; i < ACCOUNT_QUIET_PRODUCTS; i++)
			json_array_append_new(block, json_real(a->blocks[b].quiet[i]));
		json_array_append_new(quiet, block);
	}
	return json_pack("{s:o,s:o,s:I,s:I,s:I}", "blocks", blocks, "quiet", quiet, "cycles",
	                 (json_int_t)a->sampled_cycles, "left_out", (json_int_t)a->left_out,
	                 "left_out_cycles", (json_int_t)a->left_out_cycles);
}

/* The cycles that all busy polls would take one by one: latencies of the timed ones, scaled up by burst size. */
static json_t *timed_json(const struct account *a, double stamp_cycles)
{
	double weight[ACCOUNT_BURST_MAX + 1] = {0}, mean[3][ACCOUNT_BURST_MAX + 1] = {0};
	uint64_t samples = 0;

	for (int n = 1; n <= ACCOUNT_BURST_MAX; n++) {
		const struct account_stratum *s = &a->strata[n];

		samples += s->samples;
		weight[n] = s->weight;
		if (s->samples == 0)
			continue;
		mean[0][n] = s->receive_cycles / s->weight - stamp_cycles;
		mean[1][n] = s->process_cycles / s->weight - stamp_cycles;
		mean[2][n] = s->transmit_cycles / s->weight - stamp_cycles;
	}
	if (samples == 0)
		return absent("no busy poll was timed (the window is too short or the load too low)");
	return json_pack("{s:I,s:f,s:f,s:f}", "busy_polls", (json_int_t)samples, "receive_cycles",
	                 account_scale_up(a->busy_polls, weight, mean[0]), "process_cycles",
	                 account_scale_up(a->busy_polls, weight, mean[1]), "transmit_cycles",
	                 account_scale_up(a->busy_polls, weight, mean[2]));
}

static double less_stamps(uint64_t cycles, uint64_t intervals, double stamp_cycles)
{
	return (double)cycles - (double)intervals * stamp_cycles;
}

/* Mode full: all busy polls, one by one. */
static json_t *full_json(const struct account *a, double stamp_cycles)
{
	return json_pack("{s:I,s:f,s:f,s:f,s:f}", "busy_polls", (json_int_t)a->process_intervals,
	                 "receive_cycles", less_stamps(a->receive_cycles, a->receive_intervals, stamp_cycles),
	                 "process_cycles", less_stamps(a->process_cycles, a->process_intervals, stamp_cycles),
	                 "transmit_cycles",
	                 less_stamps(a->transmit_cycles, a->transmit_intervals, stamp_cycles),
	                 "empty_poll_cycles", less_stamps(a->empty_cycles, a->empty_intervals, stamp_cycles));
}

static json_t *refill_absent(const struct poller *p)
{
	return absent(poller_shares_queues(p)
	                      ? "the driver counts failed refills by queue, and several lcores poll each"
	                      : "this driver does not count failed refills by queue");
}

/*
 * Polls by outcome. A poll whose refill failed looks empty; the driver counts it. So does one that lost the race for packets to
 * another lcore (corec); with trylock the loop counts polls that found the lock taken. Otherwise no poll loses a race: an RX
 * queue has one reader or its lock is waited for, and a poller that loses the race for the head of a ring tries again until it
 * has packets or finds the ring empty.
 */
static json_t *polls_json(const struct poller *p, const struct account *a)
{
	const uint64_t nothing = poller_empty_polls(p, a), full = a->busy_polls[p->burst];
	const uint64_t lost = RTE_MIN(p->edges[1].lost_polls - p->edges[0].lost_polls, nothing),
	               empty = nothing - lost;
	const uint64_t refills = p->edges[1].refill_failures - p->edges[0].refill_failures;
	json_t *object =
	        json_pack("{s:I,s:I,s:I}", "partial", (json_int_t)(account_busy_busy_polls(a) - full), "full",
	                  (json_int_t)full, "race_lost", (json_int_t)lost);

	if (p->refill_counted || p->source == SOURCE_RING || p->source == SOURCE_MADE) {
		json_object_set_new(object, "refill_failed", integer(RTE_MIN(refills, empty)));
		json_object_set_new(object, "empty", integer(empty - RTE_MIN(refills, empty)));
	} else {
		json_object_set_new(object, "refill_failed", refill_absent(p));
		json_object_set_new(object, "empty", integer(empty));
	}
	return object;
}

/* Packets per poll; empty polls are a difference of counts (accounting.h). */
static json_t *burst_json(const struct poller *p, const struct account *a)
{
	uint64_t polls[ACCOUNT_BURST_MAX + 1];

	memcpy(polls, a->busy_polls, sizeof(polls));
	polls[0] = poller_empty_polls(p, a);
	return value_counts_to_json(polls, p->burst + 1u, "packets");
}

/* Histograms of iterations and gaps between polls exist only if something was recorded. */
static json_t *histograms_json(const struct poller *p, const struct account *a)
{
	json_t *object = json_object();

	json_object_set_new(object, "burst", burst_json(p, a));
	if (a->iteration_cycles.total)
		json_object_set_new(object, "iteration_cycles",
		                    histogram_to_json(&a->iteration_cycles, "cycles"));
	if (a->poll_gap_cycles.total)
		json_object_set_new(object, "poll_gap_cycles",
		                    histogram_to_json(&a->poll_gap_cycles, "cycles"));
	return object;
}

static json_t *os_json(const struct poller_edge edges[2])
{
	return json_pack("{s:I,s:I,s:I}", "voluntary_switches",
	                 (json_int_t)(edges[1].voluntary_switches - edges[0].voluntary_switches),
	                 "involuntary_switches",
	                 (json_int_t)(edges[1].involuntary_switches - edges[0].involuntary_switches),
	                 "minor_faults", (json_int_t)(edges[1].minor_faults - edges[0].minor_faults));
}

static json_t *pmu_window(const struct poller *p, double window[PMU_COUNTERS], bool have[PMU_COUNTERS],
                          double *multiplexed_share)
{
	json_t *object = json_object();

	for (unsigned int i = 0; i < PMU_COUNTERS; i++) {
		double share = 0;

		have[i] = p->pmu.fd[i] >= 0 &&
		          pmu_difference(&p->edges[0].pmu, &p->edges[1].pmu, i, &window[i], &share);
		*multiplexed_share = RTE_MAX(*multiplexed_share, share);
		if (have[i])
			json_object_set_new(object, pmu_names[i], integer((uint64_t)window[i]));
		else
			json_object_set_new(object, pmu_names[i],
			                    absent(p->pmu.fd[i] < 0
			                                   ? p->pmu.reason[i]
			                                   : "the kernel never scheduled this counter"));
	}
	return object;
}

/* Return counter i of all busy polls, scaled up from the sampled ones like cycles. */
static double pmu_useful(const struct account *a, unsigned int i)
{
	double weight[ACCOUNT_BURST_MAX + 1] = {0};
	double mean[ACCOUNT_BURST_MAX + 1] = {0};

	for (int n = 1; n <= ACCOUNT_BURST_MAX; n++) {
		weight[n] = (double)a->strata[n].counter_samples;
		if (weight[n] > 0)
			mean[n] = (double)a->strata[n].counters[i] / weight[n];
	}
	return account_scale_up(a->busy_polls, weight, mean);
}

static void pmu_classes(const struct poller *p, const struct account *a, const double window[],
                        const bool have[], json_t *object)
{
	const bool split = p->accounting == ACCOUNTING_SAMPLED && p->pmu.user_readable;
	static const char overlap[] =
	        "busy polls timed alone exceed the window, because they overlap in the loop";
	json_t *useful = json_object(), *polling = json_object();

	for (unsigned int i = 0; i < PMU_COUNTERS; i++) {
		if (split && have[i]) {
			const double part = pmu_useful(a, i);

			if (part > window[i]) {
				json_object_set_new(useful, pmu_names[i], absent(overlap));
				json_object_set_new(polling, pmu_names[i], absent(overlap));
				continue;
			}
			json_object_set_new(useful, pmu_names[i], integer((uint64_t)part));
			json_object_set_new(polling, pmu_names[i], integer((uint64_t)(window[i] - part)));
			continue;
		}
		const char *reason = have[i] ? "needs accounting sampled and user-space counter reads (rdpmc)"
		                             : "not counted for the window either";

		json_object_set_new(useful, pmu_names[i], absent(reason));
		json_object_set_new(polling, pmu_names[i], absent(reason));
	}
	json_object_set_new(object, "useful", useful);
	json_object_set_new(object, "polling", polling);
}

static json_t *pmu_json(const struct poller *p, const struct account *a)
{
	double window[PMU_COUNTERS] = {0}, multiplexed_share = 0;
	bool have[PMU_COUNTERS] = {0};
	json_t *object;

	if (!p->pmu.any)
		return absent(p->pmu.reason[PMU_INSTRUCTIONS]);
	object = json_pack("{s:o}", "window", pmu_window(p, window, have, &multiplexed_share));
	pmu_classes(p, a, window, have, object);
	json_object_set_new(object, "multiplexed_share", json_real(multiplexed_share));
	return object;
}

static json_t *calibrated_json(double cycles)
{
	return cycles > 0 ? json_real(cycles) : absent("packets came while it was calibrated");
}

/* Add what the classes are estimated from: counts, timed intervals, timed busy polls, and the calibrated cost of a stamp. */
static void add_accounting(json_t *object, const struct poller *p, const struct account *a)
{
	json_object_set_new(object, "cycles",
	                    json_pack("{s:I}", "total", (json_int_t)(a->last_tsc - a->first_tsc)));
	if (p->accounting == ACCOUNTING_NONE)
		return;
	json_object_set_new(object, "polls", polls_json(p, a));
	json_object_set_new(object, "iterations", integer(a->sweeps));
	json_object_set_new(object, "idle_iterations", integer(a->sweeps - a->busy_sweeps));
	json_object_set_new(object, "longest", longest_to_json(&a->longest));
	json_object_set_new(object, "histograms", histograms_json(p, a));
	if (p->accounting == ACCOUNTING_COUNT)
		return;
	json_object_set_new(object, "waited_cycles", integer(a->waited_cycles));
	json_object_set_new(object, "stamps", integer(a->stamps));
	json_object_set_new(object, "stamp_cycles", json_real(p->stamp_cycles));
	if (p->accounting == ACCOUNTING_FULL) {
		json_object_set_new(object, "timed", full_json(a, p->stamp_cycles));
		return;
	}
	json_object_set_new(
	        object, "packets",
	        integer(a->rx_packets)); /* includes packets that the poller makes, because timed intervals count them */
	json_object_set_new(object, "event_cycles", integer(a->event_cycles));
	json_object_set_new(object, "sampling_cycles", integer(a->sampling_cycles));
	json_object_set_new(object, "empty_poll_cycles", calibrated_json(p->empty_poll_cycles));
	json_object_set_new(object, "empty_poll_overlapped_cycles",
	                    calibrated_json(p->overlapped_poll_cycles));
	json_object_set_new(object, "transitions", integer(a->transitions));
	json_object_set_new(object, "timed_intervals", timed_intervals_json(a));
	json_object_set_new(object, "timed", timed_json(a, p->stamp_cycles));
}

static bool is_dispatcher(const struct poller *p)
{
	return p->role == POLLER_DISPATCHER;
}

static json_t *traffic_json(const struct poller *p, const struct account *a)
{
	static const char *const sources[] = {[SOURCE_RX_QUEUES] = "rx-queues",
	                                      [SOURCE_LOCKED] = "rx-queues",
	                                      [SOURCE_TRYLOCK] = "rx-queues",
	                                      [SOURCE_COREC] = "rx-queues",
	                                      [SOURCE_NOTIFIED] = "rx-queues",
	                                      [SOURCE_WAITING] = "rx-queues",
	                                      [SOURCE_COUNTED] = "rx-queues",
	                                      [SOURCE_RING] = "ring",
	                                      [SOURCE_MADE] = "made"};
	const bool receives =
	        p->source != SOURCE_MADE; /* packets that the poller makes count as received inside */
	json_t *object = json_pack(
	        "{s:i,s:i,s:s,s:s,s:i,s:s,s:I,s:I,s:I,s:I,s:I,s:I}", "lcore", (int)p->lcore, "cpu",
	        lcore_cpu(p->lcore), "role", is_dispatcher(p) ? "dispatcher" : "worker", "source",
	        sources[p->source], "queues", p->queues, "accounting", accounting_names[p->accounting],
	        "rx_packets", receives ? (json_int_t)a->rx_packets : 0, "rx_bytes",
	        receives ? (json_int_t)a->rx_bytes : 0, "tx_packets", (json_int_t)a->tx_packets, "tx_bytes",
	        (json_int_t)a->tx_bytes, "tx_dropped", (json_int_t)a->tx_dropped, "workload_dropped",
	        (json_int_t)a->workload_dropped);

	if (is_dispatcher(p)) {
		json_object_set_new(object, "handed_packets", integer(a->handed_packets));
		json_object_set_new(object, "ring_full", integer(a->ring_full));
	}
	if (p->source == SOURCE_MADE)
		json_object_set_new(object, "no_mbuf", integer(a->no_mbuf));
	return object;
}

/* Sums over timed iterations of a notified loop. */
static json_t *notice_json(const struct account_notice *notice)
{
	return json_pack("{s:I,s:f,s:f}", "samples", (json_int_t)notice->samples, "cycles", notice->cycles,
	                 "squared_cycles", notice->squared_cycles);
}

/* Add what a loop that does not only spin did besides its polls. */
static void add_notification(json_t *object, const struct poller *p, const struct account *a)
{
	if (p->source != SOURCE_NOTIFIED && p->source != SOURCE_WAITING)
		return;
	json_object_set_new(object, "waiting",
	                    json_pack("{s:I,s:I,s:I}", "count", (json_int_t)a->idle_waits, "cycles",
	                              (json_int_t)a->idle_cycles, "sleeps",
	                              (json_int_t)(p->edges[1].sleeps - p->edges[0].sleeps)));
	if (p->source == SOURCE_WAITING)
		return;
	json_object_set_new(object, "notices",
	                    json_pack("{s:o,s:o}", "empty", notice_json(&a->notices[0]), "busy_polls",
	                              notice_json(&a->notices[1])));
	json_object_set_new(object, "sharing",
	                    json_pack("{s:I,s:I}", "stolen",
	                              (json_int_t)(p->edges[1].stolen - p->edges[0].stolen), "vain_wakes",
	                              (json_int_t)(p->edges[1].vain_wakes - p->edges[0].vain_wakes)));
}

/* The seed of a random stream; null if nothing is drawn. */
static json_t *seed_json(const struct delay_distribution *d, uint64_t seed)
{
	return d->kind == DELAY_FIXED ? json_null() : integer(seed);
}

static void add_delays(json_t *object, const struct poller *p, const struct account *a)
{
	const struct delay_streams *streams = &p->delays;
	const struct delay_counts *counts = &a->delays;

	if (!streams->config)
		return;
	const struct delay_distribution *service = &streams->config->service;

	if (service->kind != DELAY_NONE)
		json_object_set_new(object, "service",
		                    json_pack("{s:I,s:I,s:o}", "count", (json_int_t)counts->packets, "cycles",
		                              (json_int_t)counts->service_cycles, "seed",
		                              seed_json(service, streams->service_seed)));
	if (streams->config->hiccup.kind != DELAY_NONE)
		json_object_set_new(object, "hiccups",
		                    json_pack("{s:I,s:I,s:I}", "count", (json_int_t)counts->hiccups, "cycles",
		                              (json_int_t)counts->hiccup_cycles, "seed",
		                              (json_int_t)streams->hiccup_seed));
}

/* One array per counter, with one element per part of the window. */
static json_t *series_json(const struct poller *p)
{
	const struct series *s = &p->series;
	const bool receives = p->source != SOURCE_MADE;
	json_t *cycles = json_array(), *rx_packets = json_array(), *tx_packets = json_array(),
	       *sweeps = json_array(), *interrupted = json_array();

	for (uint32_t i = 1; i < s->count; i++) {
		const struct series_point *from = &s->points[i - 1], *to = &s->points[i];

		json_array_append_new(cycles, integer(to->tsc - from->tsc));
		json_array_append_new(rx_packets, integer(receives ? to->rx_packets - from->rx_packets : 0));
		json_array_append_new(tx_packets, integer(to->tx_packets - from->tx_packets));
		json_array_append_new(sweeps, integer(to->sweeps - from->sweeps));
		json_array_append_new(interrupted,
		                      integer(to->interrupted_cycles - from->interrupted_cycles));
	}
	return json_pack("{s:o,s:o,s:o,s:o,s:o}", "cycles", cycles, "rx_packets", rx_packets, "tx_packets",
	                 tx_packets, "sweeps", sweeps, "interrupted_cycles", interrupted);
}

json_t *dut_window(const struct poller *p)
{
	const struct account *a = &p->accounts[STAGE_WINDOW];
	json_t *object = traffic_json(p, a);

	json_object_set_new(object, "window",
	                    json_pack("{s:I,s:I}", "start_tsc", (json_int_t)a->first_tsc, "end_tsc",
	                              (json_int_t)a->last_tsc));
	add_accounting(object, p, a);
	json_object_set_new(object, "interruptions",
	                    json_pack("{s:I,s:I}", "count", (json_int_t)a->interruptions, "cycles",
	                              (json_int_t)a->interrupted_cycles));
	if (p->source == SOURCE_LOCKED)
		json_object_set_new(object, "lock",
		                    json_pack("{s:I,s:I}", "waits", (json_int_t)a->lock_waits, "cycles",
		                              (json_int_t)a->lock_cycles));
	add_notification(object, p, a);
	add_delays(object, p, a);
	json_t *task = task_report(p->task);

	if (task)
		json_object_set_new(object, "task", task);
	json_object_set_new(object, "series", series_json(p));
	json_object_set_new(object, "os", os_json(p->edges));
	json_object_set_new(object, "pmu", pmu_json(p, a));
	return object;
}

json_t *dut_live(const struct poller *p)
{
	struct account sum = {0};

	for (int s = 0; s < STAGES; s++) {
		const struct account *a = &p->accounts[s];

		sum.rx_packets += a->rx_packets;
		sum.rx_bytes += a->rx_bytes;
		sum.tx_packets += a->tx_packets;
		sum.tx_bytes += a->tx_bytes;
		sum.tx_dropped += a->tx_dropped;
		sum.workload_dropped += a->workload_dropped;
		sum.handed_packets += a->handed_packets;
		sum.ring_full += a->ring_full;
		sum.no_mbuf += a->no_mbuf;
		sum.sweeps += a->sweeps;
		sum.busy_sweeps += a->busy_sweeps;
	}
	json_t *object = traffic_json(p, &sum);

	json_object_set_new(object, "iterations", integer(sum.sweeps));
	json_object_set_new(object, "idle_iterations", integer(sum.sweeps - sum.busy_sweeps));
	return object;
}

json_t *dut_report(bool running)
{
	json_t *list = json_array();
	struct poller **pollers;
	const unsigned int n = dut_pollers(&pollers);

	for (unsigned int i = 0; i < n; i++)
		json_array_append_new(list, running ? dut_live(pollers[i]) : dut_window(pollers[i]));
	json_t *object = json_pack("{s:o}", "lcores", list), *rings = running ? NULL : dut_rings_json(),
	       *rebalancing = running ? NULL : dut_rebalancer_json();

	if (rings)
		json_object_set_new(object, "rings", rings);
	if (rebalancing)
		json_object_set_new(object, "rebalancing", rebalancing);
	if (n > 0 && pollers[0]->encryptor)
		json_object_set_new(object, "crypto_driver", json_string(encryptor_driver()));
	return object;
}
