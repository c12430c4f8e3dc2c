/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include "host_check.h"
#include "clock.h"
#include "cycles.h"
#include "fields.h"
#include "lcore.h"

#define HUGE_BYTES (UINT64_C(2) << 20)
#define MEET_NS    300000 /* until all lcores of a round are awake */
/* All round trips take 0.6 ms at 1400 cycles each; the limit leaves time for a host that takes a core away. */
#define LINE_MAX_NS 5000000

struct place {
	unsigned int lcore;
	int cpu;
	uint64_t begin_tsc;
	struct host_check_core core;
	struct host_check_line line; /* to the next position in the ring of addresses */
	bool line_done;
};

static struct {
	struct place *places;
	unsigned int n;
	void *buffer;
	size_t buffer_bytes;
} host_state_work;

#define PLACES host_state_work.places

static int buffer_open(struct node_error *err)
{
	if (host_state_work.buffer)
		return 0;
	host_state_work.buffer_bytes = host_check_stream_bytes();
	host_state_work.buffer =
	        aligned_alloc(HUGE_BYTES, RTE_ALIGN_CEIL(host_state_work.buffer_bytes, HUGE_BYTES));
	if (!host_state_work.buffer)
		return node_fail(err, "", "no memory for the %zu bytes to be read",
		                 host_state_work.buffer_bytes);
	/* small pages are fine as well: reading in order misses the TLB once in 64 lines */
	madvise(host_state_work.buffer, host_state_work.buffer_bytes, MADV_HUGEPAGE);
	memset(host_state_work.buffer, 1,
	       host_state_work.buffer_bytes); /* a page that was never written is the zero page */
	return 0;
}

void host_state_close(void)
{
	free(host_state_work.buffer);
	host_state_work.buffer = NULL;
}

static int parse(json_t *request, struct node_error *err)
{
	static const struct field fields[] = {FIELDS_OF_REQUEST, {.key = "lcores", .required = true}, {0}};
	unsigned int lcores[RTE_MAX_LCORE];

	host_state_work.n = 0;
	if (fields_read(request, "", fields, NULL, err))
		return -1;
	const int n = lcore_list(json_object_get(request, "lcores"), "lcores", lcores, err);

	for (int i = 0; i < n; i++)
		PLACES[host_state_work.n++] = (struct place){.lcore = lcores[i], .cpu = lcore_cpu(lcores[i])};
	return n < 0 ? -1 : 0;
}

static void meet(const struct place *place)
{
	while (cycles_stamp() < place->begin_tsc)
		;
}

static int run_core(void *arg)
{
	struct place *place = arg;

	meet(place);
	host_check_core_run(&place->core, host_state_work.buffer, host_state_work.buffer_bytes);
	return 0;
}

static int run_lead(void *arg)
{
	struct place *place = arg;

	meet(place);
	host_check_line_lead(&place->line);
	return 0;
}

static int run_follow(void *arg)
{
	struct place *place = arg;

	meet(place);
	host_check_line_follow(&place->line);
	return 0;
}

static int launch(lcore_function_t *run, struct place *place, unsigned int lcore, struct node_error *err)
{
	if (rte_eal_remote_launch(run, place, lcore) < 0)
		return node_fail(err, "lcores", "lcore %u cannot be launched", lcore);
	return 0;
}

static uint64_t soon(void)
{
	return cycles_stamp() + cycles_of_ns(MEET_NS, clock_tsc_hz());
}

/* Return how many earlier places are on the same CPU: as many rounds pass before this one's. */
static unsigned int round_of(unsigned int index)
{
	unsigned int before = 0;

	for (unsigned int i = 0; i < index; i++)
		before += PLACES[i].cpu == PLACES[index].cpu;
	return before;
}

/* Run all CPUs at once, as they work in a trial, and lcores of one CPU one after the other. */
static int run_cores(struct node_error *err)
{
	unsigned int rounds = 1;
	int status = 0;

	for (unsigned int round = 0; round < rounds && status == 0; round++) {
		const uint64_t begin = soon();

		for (unsigned int i = 0; i < host_state_work.n && status == 0; i++) {
			rounds = RTE_MAX(rounds, round_of(i) + 1);
			if (round_of(i) != round)
				continue;
			PLACES[i].begin_tsc = begin;
			status = launch(run_core, &PLACES[i], PLACES[i].lcore, err);
		}
		lcore_wait_all();
	}
	return status;
}

/* Return whether a line between this place and the next has two CPUs, which no other line has taken. */
static bool has_cpus(unsigned int index, const bool *taken)
{
	return index + 1 < host_state_work.n && PLACES[index].cpu != PLACES[index + 1].cpu &&
	       !taken[PLACES[index].cpu] && !taken[PLACES[index + 1].cpu];
}

/*
 * Run as many lines as have CPUs of their own, each between every second lcore with a CPU. Returns their number, or -1 with
 * err.
 */
static int run_some_lines(struct node_error *err)
{
	static bool taken[CPU_SETSIZE];
	const uint64_t begin = soon(), deadline = begin + cycles_of_ns(LINE_MAX_NS, clock_tsc_hz());
	int lines = 0, status = 0;

	memset(taken, 0, sizeof(taken));
	for (unsigned int i = 0; i < host_state_work.n && status == 0; i++) {
		struct place *place = &PLACES[i];

		if (place->line_done || !has_cpus(i, taken))
			continue;
		taken[place->cpu] = taken[place[1].cpu] = place->line_done = true;
		place->begin_tsc = begin;
		host_check_line_reset(&place->line, deadline);
		status = launch(run_follow, place, place[1].lcore, err) ||
		         launch(run_lead, place, place->lcore, err);
		lines++;
	}
	lcore_wait_all();
	return status ? -1 : lines;
}

static int run_lines(struct node_error *err)
{
	int lines;

	do
		lines = run_some_lines(err);
	while (lines > 0);
	return lines;
}

static json_t *cycles_json(const uint64_t *cycles, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer((json_int_t)cycles[i]));
	return list;
}

static json_t *core_json(const struct place *place)
{
	const struct host_check_core *core = &place->core;

	return json_pack("{s:i,s:i,s:{s:i,s:o},s:{s:i,s:o},s:{s:I,s:o}}", "lcore", (int)place->lcore, "cpu",
	                 place->cpu, "chain", "steps", HOST_CHECK_STEPS, "cycles",
	                 cycles_json(core->chain, HOST_CHECK_STEP_BATCHES), "wide", "steps", HOST_CHECK_STEPS,
	                 "cycles", cycles_json(core->wide, HOST_CHECK_STEP_BATCHES), "stream", "bytes",
	                 (json_int_t)host_state_work.buffer_bytes, "cycles",
	                 cycles_json(core->stream, HOST_CHECK_STREAM_BATCHES));
}

static json_t *line_json(const struct place *place)
{
	json_t *line = json_pack("{s:[i,i],s:[i,i]}", "lcores", (int)place->lcore, (int)place[1].lcore,
	                         "cpus", place->cpu, place[1].cpu);

	if (place->cpu == place[1].cpu)
		json_object_set_new(
		        line, "absent",
		        json_sprintf("both lcores share CPU %d, so that no line moves", place->cpu));
	else if (!place->line.complete)
		json_object_set_new(line, "absent",
		                    json_sprintf("an lcore did not answer for %d ms: its CPU was taken away",
		                                 LINE_MAX_NS / 1000000));
	else
		json_object_update_new(line,
		                       json_pack("{s:i,s:o}", "round_trips", HOST_CHECK_LINE_TRIPS, "cycles",
		                                 cycles_json(place->line.cycles, HOST_CHECK_LINE_BATCHES)));
	return line;
}

static json_t *report(uint64_t start_tsc)
{
	const uint64_t hz = clock_tsc_hz();
	json_t *cores = json_array(), *lines = json_array();

	for (unsigned int i = 0; i < host_state_work.n; i++) {
		json_array_append_new(cores, core_json(&PLACES[i]));
		if (i + 1 < host_state_work.n)
			json_array_append_new(lines, line_json(&PLACES[i]));
	}
	return json_pack("{s:I,s:I,s:o,s:o}", "tsc_hz", (json_int_t)hz, "took_ns",
	                 (json_int_t)cycles_to_ns(cycles_stamp() - start_tsc, hz), "lines", lines, "cores",
	                 cores);
}

json_t *host_state(json_t *request, struct node_error *err)
{
	const uint64_t start = cycles_stamp();
	json_t *reply = NULL;

	PLACES = aligned_alloc(_Alignof(struct place), RTE_MAX_LCORE * sizeof(struct place));
	if (!PLACES) {
		node_fail(err, "", "no memory for %u lcores", RTE_MAX_LCORE);
		return NULL;
	}
	if (parse(request, err) == 0 && buffer_open(err) == 0 && run_cores(err) == 0 && run_lines(err) == 0)
		reply = report(start);
	free(PLACES);
	PLACES = NULL;
	return reply;
}
