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
#include "dut.h"
#include "dut_rings.h"
#include "fields.h"
#include "gen.h"
#include "gen_feed.h"
#include "lcore.h"
#include "ports.h"

#define LAUNCH_MARGIN_NS 1000000 /* per lcore: until all are in their loops */
#define DRAIN_LOOK_MS    1
/* So many looks without movement, and with empty rings, end the drain: a host can take a core away for tens of ms, and
 * the frames that lie in its rings meanwhile are not lost. */
#define DRAIN_QUIET_LOOKS 5
#define OVERDUE_NS        5000000000 /* an lcore that far behind its window's end will not come back */
#define NS_MAX            UINT64_C(86400000000000) /* a day */
#define WINDOW_MIN_NS     1000
#define RATE_PPS_MAX      1e9

static const char *const state_names[] = {"idle", "running", "draining", "done", "stopped"};

static struct {
	enum runner_state state;
	bool stopped_early;
	bool overdue;
	bool hold; /* the lcores go on after their windows, until `stop` */
	struct trial trial;
	uint64_t drain_max_ns;
	uint64_t drain_end_tsc;
	uint64_t closed; /* lcores whose window is closed */
	unsigned int lcores;
	uint64_t movement;
	unsigned int quiet_looks;
} runner = {.trial.wake_fd = -1};

void trial_wake(const struct trial *trial)
{
	const uint64_t one = 1;

	/* an eventfd takes 2^64 - 2 of these before it would block */
	if (write(trial->wake_fd, &one, sizeof(one)) != sizeof(one))
		return;
}

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
	static const char *const keys[] = {"pps", "line_share", "saturate", NULL};
	json_t *saturate;

	if (fields_only(rate, "rate", keys, err))
		return -1;
	if (json_object_size(rate) != 1)
		return node_fail(err, "rate", "needs exactly one of pps, line_share, saturate");
	saturate = json_object_get(rate, "saturate");
	if (saturate) {
		parsed->kind = TRIAL_RATE_SATURATE;
		return json_is_true(saturate) ? 0 : node_fail(err, "rate.saturate", "must be true");
	}
	parsed->kind = json_object_get(rate, "pps") ? TRIAL_RATE_PPS : TRIAL_RATE_LINE_SHARE;
	return fields_real(rate, "rate", "pps", 0, RATE_PPS_MAX, &parsed->value, err) ||
	       fields_real(rate, "rate", "line_share", 0, 1, &parsed->value, err);
}

struct start_request {
	const char *name;
	struct trial_rate rate;
	uint64_t warmup_ns;
	uint64_t window_ns;
	uint64_t drain_max_ns;
	bool hold;
};

static int parse_start(json_t *request, struct start_request *start, struct node_error *err)
{
	static const char *const keys[] = {"cmd",          "id",   "trial", "warmup_ns", "window_ns",
	                                   "drain_max_ns", "rate", "hold",  NULL};
	json_t *rate = json_object_get(request, "rate");
	json_t *hold = json_object_get(request, "hold");

	*start = (struct start_request){.warmup_ns = 100000000, .drain_max_ns = 100000000};
	if (fields_only(request, "", keys, err) || fields_require(request, "", "trial", err) ||
	    fields_require(request, "", "window_ns", err) ||
	    fields_string(request, "", "trial", TRIAL_NAME_MAX, &start->name, err) ||
	    fields_u64(request, "", "warmup_ns", 0, NS_MAX, &start->warmup_ns, err) ||
	    fields_u64(request, "", "window_ns", WINDOW_MIN_NS, NS_MAX, &start->window_ns, err) ||
	    fields_u64(request, "", "drain_max_ns", 0, NS_MAX, &start->drain_max_ns, err))
		return -1;
	if (gen_lcore() != LCORE_ID_ANY && fields_require(request, "", "rate", err))
		return -1;
	if (hold && !json_is_boolean(hold))
		return node_fail(err, "hold", "must be true or false");
	start->hold = json_is_true(hold);
	return rate ? parse_rate(rate, &start->rate, err) : 0;
}

static void set_load(struct trial *trial, const struct start_request *start)
{
	snprintf(trial->name, sizeof(trial->name), "%s", start->name);
	trial->rate = start->rate;
	trial->tsc_hz = clock_tsc_hz();
}

static void set_times(struct trial *trial, const struct start_request *start)
{
	/* after all preparations, which take longer with more queues */
	trial->begin_tsc = cycles_stamp() + cycles_of_ns(LAUNCH_MARGIN_NS * runner.lcores, trial->tsc_hz);
	trial->start_tsc = trial->begin_tsc + cycles_of_ns(start->warmup_ns, trial->tsc_hz);
	trial->end_tsc = trial->start_tsc + cycles_of_ns(start->window_ns, trial->tsc_hz);
	atomic_store(&trial->phase, TRIAL_RUN);
}

/* The DUT first: it should be polling when the first packet comes. */
static int launch(struct node_error *err)
{
	struct poller **pollers;
	const unsigned int n = dut_pollers(&pollers);
	int status = 0;

	for (unsigned int i = 0; i < n && status == 0; i++)
		status = rte_eal_remote_launch(dut_lcore_main, pollers[i], pollers[i]->lcore);
	if (status == 0 && gen_lcore() != LCORE_ID_ANY)
		status = rte_eal_remote_launch(gen_lcore_main, NULL, gen_lcore());
	if (status < 0)
		return node_fail(err, "", "an lcore cannot be launched: %s", strerror(-status));
	return 0;
}

static void end_lcores(void)
{
	atomic_store(&runner.trial.phase, TRIAL_OVER);
	lcore_wait_all();
	dut_rings_end();
}

int runner_start(json_t *request, struct node_error *err)
{
	struct poller **pollers;
	struct start_request start;
	uint64_t left_over;

	if (runner_busy())
		return node_fail(err, "", "trial %s is running", runner.trial.name);
	runner.lcores = dut_pollers(&pollers) + (gen_lcore() != LCORE_ID_ANY);
	if (runner.lcores == 0)
		return node_fail(err, "", "nothing is configured");
	if (parse_start(request, &start, err))
		return -1;
	runner.state = RUNNER_IDLE;
	runner.stopped_early = runner.overdue = false;
	runner.closed = runner.quiet_looks = 0;
	runner.drain_max_ns = start.drain_max_ns;
	runner.hold = start.hold;
	if (read(runner.trial.wake_fd, &left_over, sizeof(left_over)) < 0 && errno != EAGAIN)
		return node_fail(err, "", "eventfd: %s", strerror(errno));
	set_load(&runner.trial, &start);
	dut_start(&runner.trial);
	ports_mark();
	set_times(&runner.trial, &start);
	if (gen_lcore() != LCORE_ID_ANY && gen_start(&runner.trial, err) < 0)
		return -1;
	if (launch(err) < 0) {
		end_lcores();
		return -1;
	}
	runner.state = RUNNER_RUNNING;
	return 0;
}

static bool is_closed(void)
{
	return runner.closed >= runner.lcores;
}

int runner_stop(struct node_error *err)
{
	if (!runner_busy())
		return node_fail(err, "", "no trial is running");
	runner.hold = false;
	if (runner.state == RUNNER_RUNNING && !is_closed()) {
		runner.stopped_early = true;
		atomic_store(&runner.trial.phase, TRIAL_DRAIN);
	}
	return 0;
}

bool runner_busy(void)
{
	return runner.state == RUNNER_RUNNING || runner.state == RUNNER_DRAINING;
}

static json_t *finish(void)
{
	end_lcores();
	runner.state = runner.stopped_early ? RUNNER_STOPPED : RUNNER_DONE;
	return json_pack("{s:s,s:s}", "event", "done", "trial", runner.trial.name);
}

static json_t *step_draining(void)
{
	const uint64_t movement = ports_movement();
	const bool quiet = movement == runner.movement && !dut_frames_waiting() && !gen_frames_waiting();

	runner.quiet_looks = quiet ? runner.quiet_looks + 1 : 0;
	runner.movement = movement;
	if (runner.quiet_looks >= DRAIN_QUIET_LOOKS || cycles_stamp() >= runner.drain_end_tsc)
		return finish();
	return NULL;
}

static json_t *step_running(void)
{
	const uint64_t now = cycles_stamp();
	uint64_t closed = 0;

	if (read(runner.trial.wake_fd, &closed, sizeof(closed)) == sizeof(closed))
		runner.closed += closed;
	if (is_closed()) {
		if (runner.hold)
			return NULL;
		runner.state = RUNNER_DRAINING;
		runner.movement = ports_movement();
		runner.drain_end_tsc = now + cycles_of_ns(runner.drain_max_ns, runner.trial.tsc_hz);
		return NULL;
	}
	if (runner.overdue || now < runner.trial.end_tsc + cycles_of_ns(OVERDUE_NS, runner.trial.tsc_hz))
		return NULL;
	runner.overdue = true;
	return json_pack("{s:s,s:s,s:s}", "event", "failed", "trial", runner.trial.name, "error",
	                 "an lcore did not close its window within 5 s of its end");
}

json_t *runner_step(void)
{
	if (runner.state == RUNNER_RUNNING)
		return step_running();
	if (runner.state == RUNNER_DRAINING)
		return step_draining();
	return NULL;
}

int runner_timeout_ms(void)
{
	if (runner.state == RUNNER_DRAINING)
		return DRAIN_LOOK_MS;
	return -1;
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

void runner_close(void)
{
	if (runner_busy())
		end_lcores();
	runner.state = RUNNER_IDLE;
	close(runner.trial.wake_fd);
	runner.trial.wake_fd = -1;
}
