/* SPDX-License-Identifier: BSD-3-Clause */
#include "runner.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_launch.h>
#include <rte_lcore.h>

#include "clock.h"
#include "cycles.h"
#include "dut/dut.h"
#include "dut/rings.h"
#include "fields.h"
#include "gen/gen.h"
#include "gen/feed.h"
#include "lcore.h"
#include "ports/ports.h"

#define LAUNCH_MARGIN_NS 1000000 /* per lcore, until all are in their loops */
#define DRAIN_LOOK_MS    1
/*
 * This many looks without movement and with empty rings end the drain: a host can take a core away for tens of ms, and frames
 * that lie in its rings meanwhile are not lost.
 */
#define DRAIN_QUIET_LOOKS 5
#define OVERDUE_NS        5000000000               /* a trial this far behind its planned end has failed */
#define CLOSE_LIMIT_NS    2000000000               /* clients wait 3 s for the end of a node after `quit` */
#define NS_MAX            UINT64_C(86400000000000) /* a day */
#define WINDOW_MIN_NS     1000
#define RATE_PPS_MAX      1e9

/* readers do not need to know that lcores are returning */
static const char *const state_names[] = {
        [RUNNER_IDLE] = "idle",       [RUNNER_RUNNING] = "running", [RUNNER_DRAINING] = "draining",
        [RUNNER_ENDING] = "draining", [RUNNER_DONE] = "done",       [RUNNER_STOPPED] = "stopped",
        [RUNNER_FAILED] = "failed",
};

static struct {
	enum runner_state state;
	bool stopped_early;
	bool hold; /* the lcores run on after their windows, until `stop` */
	struct trial trial;
	uint64_t drain_max_ns;
	uint64_t drain_end_tsc;
	uint64_t limit_tsc; /* a trial that is not over by then has failed; `stop` sets it again */
	unsigned int lcores[RTE_MAX_LCORE];
	unsigned int lcores_n;
	bool launched;                     /* not all lcores have been waited for yet */
	atomic_bool closed[RTE_MAX_LCORE]; /* by lcore: its window is closed */
	uint64_t movement;
	unsigned int quiet_looks;
} runner = {.trial = {.wake_fd = -1, .closed = runner.closed}};

int runner_open(void)
{
	runner.trial.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return runner.trial.wake_fd < 0 ? -errno : 0;
}

int runner_wake_fd(void)
{
	return runner.trial.wake_fd;
}

static int parse_rate(json_t *rate, struct trial_rate *parsed, struct node_error *err)
{
	static const struct field fields[] = {
	        {"pps", FIELD_REAL, FIELD_OF(struct trial_rate, value), .most = RATE_PPS_MAX},
	        {"line_share", FIELD_REAL, FIELD_OF(struct trial_rate, value), .most = 1},
	        {"trace_share", FIELD_REAL, FIELD_OF(struct trial_rate, value), .most = RATE_PPS_MAX},
	        {.key = "saturate"},
	        {0}};
	const json_t *saturate = json_object_get(rate, "saturate");

	if (fields_read(rate, "rate", fields, parsed, err))
		return -1;
	if (json_object_size(rate) != 1)
		return node_fail(err, "rate", "needs exactly one of pps, line_share, trace_share, saturate");
	if (saturate && !json_is_true(saturate))
		return node_fail(err, "rate.saturate", "must be true");
	parsed->kind = saturate                              ? TRIAL_RATE_SATURATE
	               : json_object_get(rate, "pps")        ? TRIAL_RATE_PPS
	               : json_object_get(rate, "line_share") ? TRIAL_RATE_LINE_SHARE
	                                                     : TRIAL_RATE_TRACE_SHARE;
	return 0;
}

struct start_request {
	const char *name;
	struct trial_rate rate;
	uint64_t warmup_ns;
	uint64_t window_ns;
	uint64_t drain_max_ns;
	bool hold;
};

#define OF(member) FIELD_OF(struct start_request, member)

static int parse_start(json_t *request, struct start_request *start, struct node_error *err)
{
	static const struct field fields[] = {
	        FIELDS_OF_REQUEST,
	        {"trial", FIELD_STRING, OF(name), .max = TRIAL_NAME_MAX, .required = true},
	        {"warmup_ns", FIELD_NUMBER, OF(warmup_ns), .max = NS_MAX},
	        {"window_ns", FIELD_NUMBER, OF(window_ns), .min = WINDOW_MIN_NS, .max = NS_MAX,
	         .required = true},
	        {"drain_max_ns", FIELD_NUMBER, OF(drain_max_ns), .max = NS_MAX},
	        {.key = "rate"},
	        {"hold", FIELD_BOOL, OF(hold)},
	        {0},
	};
	json_t *rate = json_object_get(request, "rate");

	*start = (struct start_request){.warmup_ns = 100000000, .drain_max_ns = 100000000};
	if (fields_read(request, "", fields, start, err))
		return -1;
	if (gen_lcore() != LCORE_ID_ANY && fields_require(request, "", "rate", err))
		return -1;
	return rate ? parse_rate(rate, &start->rate, err) : 0;
}

static void set_times(struct trial *trial, const struct start_request *start)
{
	/* after all preparations, which take longer with more queues */
	trial->begin_tsc = cycles_stamp() + cycles_of_ns(LAUNCH_MARGIN_NS * runner.lcores_n, trial->tsc_hz);
	trial->start_tsc = trial->begin_tsc + cycles_of_ns(start->warmup_ns, trial->tsc_hz);
	trial->end_tsc = trial->start_tsc + cycles_of_ns(start->window_ns, trial->tsc_hz);
	atomic_store(&trial->phase, TRIAL_RUN);
}

static uint64_t limit_from(uint64_t tsc)
{
	return tsc + cycles_of_ns(runner.drain_max_ns + OVERDUE_NS, runner.trial.tsc_hz);
}

static void list_lcores(void)
{
	struct poller **pollers;
	const unsigned int *lcores;
	const unsigned int n = dut_pollers(&pollers), generators = gen_lcores(&lcores);

	runner.lcores_n = 0;
	for (unsigned int i = 0; i < n; i++)
		runner.lcores[runner.lcores_n++] = pollers[i]->lcore;
	for (unsigned int i = 0; i < generators; i++)
		runner.lcores[runner.lcores_n++] = lcores[i];
	for (unsigned int i = 0; i < runner.lcores_n; i++)
		atomic_store(&runner.closed[runner.lcores[i]], false);
}

/* Launch the DUT first: it should be polling when the first packet comes. */
static int launch(struct node_error *err)
{
	struct poller **pollers;
	const unsigned int *lcores;
	const unsigned int n = dut_pollers(&pollers), generators = gen_lcores(&lcores);
	int status = 0;

	for (unsigned int i = 0; i < n && status == 0; i++)
		status = rte_eal_remote_launch(dut_lcore_main, pollers[i], pollers[i]->lcore);
	for (unsigned int i = 0; i < generators && status == 0; i++)
		status = rte_eal_remote_launch(gen_lcore_main, (void *)(uintptr_t)i, lcores[i]);
	if (status < 0)
		return node_fail(err, "", "an lcore cannot be launched: %s", strerror(-status));
	return 0;
}

static void end_lcores(void)
{
	atomic_store(&runner.trial.phase, TRIAL_OVER);
	lcore_wait_all();
	runner.launched = false;
	dut_rings_end();
}

int runner_start(json_t *request, struct node_error *err)
{
	struct start_request start;
	uint64_t left_over;

	if (runner_busy())
		return node_fail(err, "", "trial %s is running", runner.trial.name);
	list_lcores();
	if (runner.lcores_n == 0)
		return node_fail(err, "", "nothing is configured");
	if (parse_start(request, &start, err))
		return -1;
	runner.state = RUNNER_IDLE;
	runner.stopped_early = false;
	runner.quiet_looks = 0;
	runner.drain_max_ns = start.drain_max_ns;
	runner.hold = start.hold;
	if (read(runner.trial.wake_fd, &left_over, sizeof(left_over)) < 0 && errno != EAGAIN)
		return node_fail(err, "", "eventfd: %s", strerror(errno));
	snprintf(runner.trial.name, sizeof(runner.trial.name), "%s", start.name);
	runner.trial.rate = start.rate;
	runner.trial.tsc_hz = clock_tsc_hz();
	dut_start(&runner.trial);
	ports_mark();
	set_times(&runner.trial, &start);
	if (gen_lcore() != LCORE_ID_ANY && gen_start(&runner.trial, err) < 0)
		return -1;
	runner.limit_tsc = limit_from(runner.trial.end_tsc);
	runner.launched = true;
	if (launch(err) < 0) {
		end_lcores();
		return -1;
	}
	runner.state = RUNNER_RUNNING;
	return 0;
}

static bool is_closed(void)
{
	for (unsigned int i = 0; i < runner.lcores_n; i++)
		if (!atomic_load(&runner.closed[runner.lcores[i]]))
			return false;
	return true;
}

static bool any_out(void)
{
	for (unsigned int i = 0; i < runner.lcores_n; i++)
		if (lcore_is_out(runner.lcores[i]))
			return true;
	return false;
}

int runner_stop(struct node_error *err)
{
	if (!runner_busy())
		return node_fail(err, "", "no trial is running");
	if (runner.state == RUNNER_FAILED)
		return node_fail(err, "", "trial %s has failed, and its lcores hang", runner.trial.name);
	runner.hold = false;
	if (runner.state == RUNNER_RUNNING)
		runner.limit_tsc = limit_from(cycles_stamp());
	if (runner.state == RUNNER_RUNNING && !is_closed()) {
		runner.stopped_early = true;
		atomic_store(&runner.trial.phase, TRIAL_DRAIN);
	}
	return 0;
}

bool runner_busy(void)
{
	return runner.launched;
}

/* Tell the lcores to return, in case they ever look. */
static json_t *fail(void)
{
	json_t *hung = json_array();
	char names[256] = "";
	size_t length = 0;

	for (unsigned int i = 0; i < runner.lcores_n; i++) {
		const unsigned int lcore = runner.lcores[i];

		/* it closed its window or, after that, returned */
		if (runner.state == RUNNER_RUNNING ? atomic_load(&runner.closed[lcore])
		                                   : !lcore_is_out(lcore))
			continue;
		json_array_append_new(hung, json_integer(lcore));
		if (length < sizeof(names))
			length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%u (CPU %d)",
			                           length ? ", " : "", lcore, lcore_cpu(lcore));
	}
	runner.state = RUNNER_FAILED;
	atomic_store(&runner.trial.phase, TRIAL_OVER);
	return json_pack("{s:s,s:s,s:o,s:o}", "event", "failed", "trial", runner.trial.name, "error",
	                 json_sprintf("not over 5 s after its planned end; lcores that hang: %s", names),
	                 "hung", hung);
}

static json_t *step_ending(void)
{
	if (any_out())
		return cycles_stamp() < runner.limit_tsc ? NULL : fail();
	end_lcores();
	runner.state = runner.stopped_early ? RUNNER_STOPPED : RUNNER_DONE;
	return json_pack("{s:s,s:s}", "event", "done", "trial", runner.trial.name);
}

static json_t *step_draining(void)
{
	const uint64_t movement = ports_movement();
	/* a DUT elsewhere may hold packets, unseen, for longer than a few looks */
	const bool quiet = movement == runner.movement && !dut_frames_waiting() && !gen_frames_waiting() &&
	                   !gen_packets_out();

	runner.quiet_looks = quiet ? runner.quiet_looks + 1 : 0;
	runner.movement = movement;
	if (runner.quiet_looks < DRAIN_QUIET_LOOKS && cycles_stamp() < runner.drain_end_tsc)
		return NULL;
	atomic_store(&runner.trial.phase, TRIAL_OVER);
	runner.state = RUNNER_ENDING;
	return step_ending();
}

static json_t *step_running(void)
{
	const uint64_t now = cycles_stamp();
	uint64_t wakes;

	if (read(runner.trial.wake_fd, &wakes, sizeof(wakes)) < 0) {
		/* nothing has woken this lcore: look from time to time */
	}
	dut_step();
	if (is_closed()) {
		if (runner.hold)
			return NULL;
		runner.state = RUNNER_DRAINING;
		runner.movement = ports_movement();
		runner.drain_end_tsc = now + cycles_of_ns(runner.drain_max_ns, runner.trial.tsc_hz);
		return NULL;
	}
	return now < runner.limit_tsc ? NULL : fail();
}

/* The lcores of a failed trial have returned after all. */
static json_t *step_failed(void)
{
	if (runner.launched && !any_out())
		end_lcores();
	return NULL;
}

json_t *runner_step(void)
{
	switch (runner.state) {
	case RUNNER_RUNNING:
		return step_running();
	case RUNNER_DRAINING:
		return step_draining();
	case RUNNER_ENDING:
		return step_ending();
	case RUNNER_FAILED:
		return step_failed();
	default:
		return NULL;
	}
}

int runner_timeout_ms(void)
{
	if (runner.state == RUNNER_DRAINING || runner.state == RUNNER_ENDING)
		return DRAIN_LOOK_MS;
	return runner.state == RUNNER_RUNNING ? dut_timeout_ms() : -1;
}

const char *runner_trial_name(void)
{
	return runner.trial.name;
}

const char *runner_state_name(void)
{
	return state_names[runner.state];
}

json_t *runner_read(struct node_error *err)
{
	if (runner.state == RUNNER_IDLE) {
		node_fail(err, "", "no trial was run with this configuration");
		return NULL;
	}
	json_t *result = json_pack(
	        "{s:s,s:s,s:{s:I,s:I,s:I}}", "state", state_names[runner.state], "trial", runner.trial.name,
	        "window", "start_tsc", (json_int_t)runner.trial.start_tsc, "end_tsc",
	        (json_int_t)runner.trial.end_tsc, "tsc_hz", (json_int_t)runner.trial.tsc_hz);
	struct poller **pollers;

	if (dut_pollers(&pollers))
		json_object_set_new(result, "dut", dut_report(runner_busy()));
	if (gen_lcore() != LCORE_ID_ANY)
		json_object_set_new(result, "gen", json_pack("{s:o}", "lcores", gen_report()));
	json_object_set_new(result, "ports", ports_report());
	json_t *feed = gen_feed_report();

	if (feed)
		json_object_set_new(result, "feed", feed);
	if (runner_busy())
		json_object_set_new(result, "now_tsc", json_integer((json_int_t)cycles_stamp()));
	return result;
}

void runner_forget(void)
{
	runner.state = RUNNER_IDLE;
}

int runner_close(void)
{
	const uint64_t limit = cycles_stamp() + cycles_of_ns(CLOSE_LIMIT_NS, clock_tsc_hz());

	atomic_store(&runner.trial.phase, TRIAL_OVER);
	if (!lcore_wait_until(limit))
		return -ETIMEDOUT; /* keep the eventfd open, because lcores may still write to it */
	dut_rings_end();
	runner.state = RUNNER_IDLE;
	close(runner.trial.wake_fd);
	runner.trial.wake_fd = -1;
	return 0;
}
