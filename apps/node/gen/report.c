/* SPDX-License-Identifier: BSD-3-Clause */
#include "report.h"
#include "lcore.h"

#include <stdatomic.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_lcore.h>

#include "cycles.h"
#include "trace.h"
#include "wire_agent.h"

static json_t *integer(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/*
 * Return the counts of the window: up to now while it is open, nothing before. An agent's counts are read after that check, because a window
 * that opens between them begins with higher counts.
 */
static struct gen_counts window_counts(struct gen_engine *e)
{
	const bool opened = atomic_load(&e->opened_tsc) != 0;
	const uint64_t *before = (const uint64_t *)&e->at_open;
	struct gen_counts counts;
	uint64_t *words = (uint64_t *)&counts;

	if (e->agent != NULL)
		gen_agent_count(e);
	if (!opened)
		return (struct gen_counts){0};
	counts = atomic_load(&e->closed_tsc) != 0 ? e->at_close : e->counts;
	for (size_t i = 0; i < sizeof(counts) / sizeof(*words); i++)
		words[i] -= before[i];
	return counts;
}

static uint64_t window_cycles(const struct gen_engine *e)
{
	const uint64_t opened = atomic_load(&e->opened_tsc);
	const uint64_t closed = atomic_load(&e->closed_tsc);

	if (opened == 0)
		return 0;
	return (closed != 0 ? closed : rte_rdtsc()) - opened;
}

static json_t *counts_of(const struct gen_counts *c)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "intended", integer(c->intended),
	                 "sent", integer(c->sent), "unsent", integer(c->unsent), "tx_bytes",
	                 integer(c->tx_bytes), "tx_refused", integer(c->tx_refused), "no_mbuf",
	                 integer(c->no_mbuf), "rx_packets", integer(c->rx_packets), "rx_bytes",
	                 integer(c->rx_bytes), "rx_foreign", integer(c->rx_foreign));
}

static json_t *host_gaps(const struct gen_engine *e, const struct gen_counts *c)
{
	const uint64_t tsc_hz = e->trial->tsc_hz;

	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "over_1us", integer(c->gaps_over_1us), "over_10us",
	                 integer(c->gaps_over_10us), "over_100us", integer(c->gaps_over_100us),
	                 "in_over_100us_ns", integer(cycles_to_ns(c->cycles_over_100us, tsc_hz)),
	                 "longest_ns", integer(cycles_to_ns(e->longest_gap, tsc_hz)));
}

/* Number of flows with a fault of each kind, and the flow that lost the largest share. */
struct flow_faults {
	uint32_t sent; /* flows with at least one packet sent */
	uint32_t lossy;
	uint32_t duplicated;
	uint32_t reordered;
	uint32_t worst;
	uint64_t worst_sent;
	uint64_t worst_lost;
};

/* `number`: index of the flow among its sender's. */
static void judge_flow(struct flow_faults *faults, const struct sequence *s, uint32_t flow, uint32_t number,
                       uint64_t sent)
{
	const uint64_t arrived = s->flow[number].arrivals;
	const uint64_t lost = sent > arrived ? sent - arrived : 0;

	faults->sent += sent > 0;
	faults->lossy += lost > 0;
	faults->duplicated += s->faults[number].duplicated > 0;
	faults->reordered += s->faults[number].reordered > 0;
	if ((double)lost * (double)faults->worst_sent > (double)faults->worst_lost * (double)sent ||
	    (lost > 0 && faults->worst_lost == 0)) {
		faults->worst = flow;
		faults->worst_sent = sent;
		faults->worst_lost = lost;
	}
}

static json_t *flows_to_json(const struct flow_faults *faults)
{
	json_t *object = json_pack("{s:o, s:o, s:o, s:o}", "sent", integer(faults->sent), "lossy",
	                           integer(faults->lossy), "duplicated", integer(faults->duplicated),
	                           "reordered", integer(faults->reordered));

	if (object != NULL && faults->worst_lost > 0)
		json_object_set_new(object, "worst_loss",
		                    json_pack("{s:o, s:o, s:o}", "flow", integer(faults->worst), "sent",
		                              integer(faults->worst_sent), "lost",
		                              integer(faults->worst_lost)));
	return object;
}

static json_t *flow_faults(const struct gen_config *config, const struct gen_engine *e, unsigned int place,
                           const struct sequence *arrived)
{
	uint64_t *sent_of = calloc(config->flows, sizeof(*sent_of));
	struct flow_faults faults = {0};

	if (sent_of == NULL)
		return json_pack("{s:s}", "absent", "no memory to go through the flows");
	for (unsigned int i = 0; i < GEN_LISTS; i++)
		gen_list_count_flows(&e->traffic.lists[i], e->sent_of[i], sent_of);
	for (uint32_t number = 0, flow = 0; flow < config->flows; flow++)
		if (gen_config_sender(config, flow) == place)
			judge_flow(&faults, arrived, flow, number++, sent_of[flow]);
	free(sent_of);
	return flows_to_json(&faults);
}

/* Pairs of displacement and number of packets; the packets in place (0) are the rest. */
static json_t *displaced(const struct sequence *s)
{
	json_t *list = json_array();

	for (int i = 0; i <= 2 * SEQUENCE_DISPLACEMENT_MAX; i++)
		if (s->displaced[i] > 0)
			json_array_append_new(list, json_pack("[i, o]", i - SEQUENCE_DISPLACEMENT_MAX,
			                                      integer(s->displaced[i])));
	return list;
}

/* Packets of the whole trial that e sent: numbers that never arrived are lost. */
static json_t *sequence_report(const struct gen_config *config, const struct gen_engine *e,
                               unsigned int place, const struct sequence *s)
{
	const uint64_t sent = e->counts.sent;

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "lost",
	                 integer(sent > s->unique ? sent - s->unique : 0), "duplicated",
	                 integer(s->duplicated), "reordered", integer(s->reordered_in_flow),
	                 "reordered_in_total", integer(s->reordered), "too_old", integer(s->too_old),
	                 "window", integer(sequence_window(s)), "extent",
	                 histogram_to_json(&s->extent, "packets"), "distance",
	                 histogram_to_json(&s->distance, "packets"), "degree",
	                 histogram_to_json(&s->degree, "packets"), "displaced", displaced(s), "flows",
	                 flow_faults(config, e, place, s));
}

static void add_departure_times(const struct gen_engine *e, json_t *report)
{
	static const char *const absent = "no schedule: the generator sent as fast as it could";

	json_object_set_new(report, "lateness_ns",
	                    e->saturate ? json_pack("{s:s}", "absent", absent)
	                                : histogram_to_json(&e->lateness_ns, "ns"));
	json_object_set_new(report, "interdeparture_ns",
	                    e->saturate ? json_pack("{s:s}", "absent", absent)
	                                : histogram_to_json(&e->interdeparture_ns, "ns"));
}

/* Report the packets of the lcore at `place`, whichever lcores received them. */
static json_t *gathered_report(const struct gen_config *config, struct gen_engine *const *engines,
                               unsigned int place)
{
	struct sequence *const sum = sequence_new(engines[place]->flows);
	json_t *report;

	if (sum == NULL)
		return json_pack("{s:s}", "absent", "no memory to add up what each lcore received");
	for (unsigned int i = 0; i < config->lcores_n; i++)
		sequence_add(sum, engines[i]->received[place]);
	report = sequence_report(config, engines[place], place, sum);
	sequence_free(sum);
	return report;
}

static void add_reception(const struct gen_config *config, struct gen_engine *const *engines,
                          unsigned int place, json_t *report)
{
	const struct gen_engine *e = engines[place];

	if (e->rx_port == NO_PORT)
		return;
	json_object_set_new(report, "sequence",
	                    config->kind == GEN_AGENT ? gen_agent_sequence(e)
	                    : config->lcores_n > 1    ? gathered_report(config, engines, place)
	                                              : sequence_report(config, e, place, e->received[0]));
	json_object_set_new(report, "latency_ns",
	                    json_pack("{s:o, s:o}", "from_intended",
	                              histogram_to_json(&e->latency_intended_ns, "ns"), "from_sent",
	                              histogram_to_json(&e->latency_sent_ns, "ns")));
}

/* TSC cycles since the start of the window, and lateness, of the first packets that left in it. */
static void add_departures(const struct gen_engine *e, json_t *report)
{
	json_t *list;

	if (e->departures_max == 0)
		return;
	list = json_array();
	for (uint32_t i = 0; i < e->departures_count; i++)
		json_array_append_new(
		        list, json_pack("[I, I]", (json_int_t)(e->departures[i].sent - e->trial->start_tsc),
		                        (json_int_t)e->departures[i].lateness));
	json_object_set_new(report, "departures", list);
}

/* While the window is open, up to now. */
static double window_queue_polls(const struct gen_engine *e)
{
	if (atomic_load(&e->opened_tsc) == 0)
		return 0;
	if (atomic_load(&e->closed_tsc) != 0)
		return e->queue_polls_at_close - e->queue_polls_at_open;
	return gen_queue_polls_count(&e->queue_polls, rte_rdtsc()) - e->queue_polls_at_open;
}

/*
 * Report how well the shape was kept: packets sent to hot queues, and packets that their polls would have taken; the same for
 * cold queues. If polls are unknown there is nothing to compare with.
 */
static void add_shape(const struct gen_config *config, const struct gen_engine *e, const struct gen_counts *c,
                      json_t *report)
{
	const struct gen_shape_queues *queues = &e->traffic.queues;
	const double queue_polls = window_queue_polls(e);
	json_t *shape;

	if (!e->backlog)
		return;
	shape = json_pack("{s:o, s:o, s:f, s:o, s:o, s:o}", "hot", gen_shape_hot_json(queues), "cold",
	                  json_integer(e->target_queues - queues->hot), "probability", queues->probability,
	                  "hot_sent", integer(c->sent - c->cold_sent), "cold_sent", integer(c->cold_sent),
	                  "cold_unsent", integer(c->cold_unsent));
	if (queue_polls > 0)
		json_object_update_new(
		        shape, json_pack("{s:f, s:f, s:f}", "queue_polls", queue_polls, "hot_asked",
		                         queue_polls * e->traffic.hot_part * config->busy_poll_packets,
		                         "cold_asked", queue_polls * e->cold_per_poll));
	else
		json_object_set_new(
		        shape, "queue_polls",
		        json_pack("{s:s}", "absent",
		                  "the rate of the DUT's polls is unknown (request queue_polls)"));
	json_object_set_new(report, "shape", shape);
}

/* Report what is replayed, and how often it was repeated. */
static void add_trace(const struct gen_engine *e, json_t *report)
{
	const struct gen_trace *const t = e->trace;

	if (t == NULL)
		return;
	json_object_set_new(report, "trace",
	                    json_pack("{s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:f}", "packets",
	                              integer(t->packets), "flows", integer(t->flows), "duration_ns",
	                              integer(t->duration_ns), "mean_bytes", t->mean_bytes, "crowded",
	                              integer(t->crowded), "padded", integer(t->padded), "cut",
	                              integer(t->cut), "shortened", integer(t->shortened), "backward",
	                              integer(t->backward), "turns", (double)e->counts.sent / t->packets));
}

static void add_rest(const struct gen_engine *e, unsigned int lcore, const struct gen_counts *c,
                     json_t *report)
{
	const json_int_t duration = (json_int_t)window_cycles(e);

	json_object_set_new(report, "lcore", json_integer(lcore));
	json_object_set_new(report, "cpu", json_integer(lcore_cpu(lcore)));
	json_object_set_new(report, "duration_tsc", json_integer(duration));
	json_object_set_new(report, "total",
	                    json_pack("{s:o, s:o}", "sent", integer(e->counts.sent), "rx_packets",
	                              integer(e->counts.rx_packets)));
	json_object_set_new(
	        report, "histogram",
	        json_pack("{s:o}", "burst", value_counts_to_json(c->bursts, GEN_BURST_MAX + 1, "packets")));
	json_object_set_new(report, "host_gaps", host_gaps(e, c));
}

json_t *gen_report_lcore(const struct gen_config *config, struct gen_engine *const *engines,
                         unsigned int place)
{
	struct gen_engine *e = engines[place];
	const struct gen_counts counts = window_counts(e);
	json_t *report = counts_of(&counts);

	add_rest(e, config->lcores[place], &counts, report);
	add_departure_times(e, report);
	add_reception(config, engines, place, report);
	add_departures(e, report);
	add_shape(config, e, &counts, report);
	if (e->stamps.every_ns != 0)
		json_object_set_new(report, "nic_stamps", gen_stamps_report(&e->stamps));
	add_trace(e, report);
	return report;
}
