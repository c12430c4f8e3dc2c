/* SPDX-License-Identifier: BSD-3-Clause */
#include "sessions.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "cycles.h"
#include "rng.h"
#include "callbacks.h"
#include "record.h"

#define DOUBLED_PART 8 /* one window of so many is doubled */
#define RECLAIM_NS   50000000
#define US_NS        UINT64_C(1000)
#define MS_NS        UINT64_C(1000000)
#define S_NS         UINT64_C(1000000000)

struct session {
	int number; /* 0: free */
	struct probe_settings settings;
	uint64_t last_beat_ns;
};

/* Protects all data below, callbacks.c, and the opening and closing of windows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static bool is_running; /* the thread */
static struct session sessions[PROBE_SESSIONS];
static int last_number;
static uint32_t changes; /* of the sessions */
static uint64_t skipped_windows;
static uint64_t rx_callback_cycles, tx_callback_cycles;
static struct rng rng;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * S_NS + (uint64_t)now.tv_nsec;
}

static uint64_t expiry_ns(const struct session *session)
{
	return session->last_beat_ns + session->settings.heartbeat_ms * MS_NS;
}

/* End sessions without a heartbeat. Returns when the next one would expire; UINT64_MAX without sessions. */
static uint64_t expire(uint64_t now)
{
	uint64_t next_ns = UINT64_MAX;

	for (int i = 0; i < PROBE_SESSIONS; i++) {
		if (sessions[i].number == 0)
			continue;
		if (expiry_ns(&sessions[i]) <= now) {
			sessions[i].number = 0;
			changes++;
		} else if (expiry_ns(&sessions[i]) < next_ns) {
			next_ns = expiry_ns(&sessions[i]);
		}
	}
	return next_ns;
}

static uint32_t shared_settings(struct probe_settings *shared)
{
	uint32_t count = 0;

	*shared = (struct probe_settings){.period_us = UINT32_MAX};
	for (int i = 0; i < PROBE_SESSIONS; i++) {
		const struct probe_settings *own = &sessions[i].settings;

		if (sessions[i].number == 0)
			continue;
		count++;
		if (own->sample_us > shared->sample_us)
			shared->sample_us = own->sample_us;
		if (own->period_us < shared->period_us)
			shared->period_us = own->period_us;
	}
	if (count == 0)
		shared->period_us = 0;
	if (shared->period_us < shared->sample_us)
		shared->period_us = shared->sample_us;
	return count;
}

static void wait_at_most(uint64_t until_ns)
{
	const struct timespec until = {.tv_sec = (time_t)(until_ns / S_NS),
	                               .tv_nsec = (long)(until_ns % S_NS)};

	if (until_ns == UINT64_MAX)
		pthread_cond_wait(&changed, &lock);
	else
		pthread_cond_timedwait(&changed, &lock, &until);
}

/* Wait with the lock given away. Returns whether the time was reached before the sessions changed. */
static bool wait_until(uint64_t until_ns)
{
	const uint32_t before = changes;

	for (;;) {
		const uint64_t now = now_ns(), next_ns = expire(now);

		if (changes != before)
			return false;
		if (now >= until_ns)
			return true;
		wait_at_most(next_ns < until_ns ? next_ns : until_ns);
	}
}

/* Returns whether the sessions stayed as they were. */
static bool take_window(uint64_t sample_ns, bool may_double)
{
	const bool doubled = may_double && rng_below(&rng, DOUBLED_PART) == 0;
	bool unchanged;

	if (!probe_callbacks_add(doubled)) {
		skipped_windows++;
		return true;
	}
	probe_window_open(doubled);
	unchanged = wait_until(now_ns() + sample_ns);
	probe_window_close();
	probe_window_end();
	probe_callbacks_remove();
	return unchanged;
}

static void take_period(const struct probe_settings *settings)
{
	const uint64_t period_ns = settings->period_us * US_NS, sample_ns = settings->sample_us * US_NS;
	const uint64_t begin_ns = now_ns();

	if (!wait_until(begin_ns + rng_below(&rng, period_ns - sample_ns + 1)))
		return;
	probe_callbacks_reclaim();
	if (take_window(sample_ns, sample_ns < period_ns))
		wait_until(begin_ns + period_ns);
}

static void *take_windows(void *argument)
{
	struct probe_settings settings;
	sigset_t all;

	(void)argument;
	/* Signals are the program's. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	pthread_mutex_lock(&lock);
	for (;;) {
		if (shared_settings(&settings) > 0)
			take_period(&settings);
		else
			wait_until(probe_callbacks_reclaim() ? now_ns() + RECLAIM_NS : UINT64_MAX);
	}
	return NULL;
}

static int start_thread(void)
{
	pthread_condattr_t monotonic;
	pthread_t thread;
	int status = probe_callbacks_init(&lock);

	if (status < 0)
		return status;
	probe_calibrate(&rx_callback_cycles, &tx_callback_cycles);
	rng_seed(&rng, cycles_stamp());
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	status = -pthread_create(&thread, NULL, take_windows, NULL);
	if (status < 0)
		return status;
	pthread_setname_np(thread, "pollscope-probe");
	is_running = true;
	return 0;
}

static int add_session(const struct probe_settings *settings)
{
	for (int i = 0; i < PROBE_SESSIONS; i++)
		if (sessions[i].number == 0) {
			sessions[i] = (struct session){
			        .number = ++last_number, .settings = *settings, .last_beat_ns = now_ns()};
			changes++;
			pthread_cond_signal(&changed);
			return last_number;
		}
	return -EUSERS;
}

int probe_session_start(const struct probe_settings *settings)
{
	int number;

	pthread_mutex_lock(&lock);
	number = is_running ? 0 : start_thread();
	if (number == 0)
		number = add_session(settings);
	pthread_mutex_unlock(&lock);
	return number;
}

/* Returns false if there is no such session. */
static bool beat_or_stop(int number, bool stops)
{
	struct session *session = NULL;

	pthread_mutex_lock(&lock);
	expire(now_ns());
	for (int i = 0; i < PROBE_SESSIONS; i++)
		if (number > 0 && sessions[i].number == number)
			session = &sessions[i];
	if (session != NULL && stops) {
		session->number = 0;
		changes++;
		pthread_cond_signal(&changed);
	} else if (session != NULL) {
		session->last_beat_ns = now_ns();
	}
	pthread_mutex_unlock(&lock);
	return session != NULL;
}

bool probe_session_beat(int number)
{
	return beat_or_stop(number, false);
}

bool probe_session_stop(int number)
{
	return beat_or_stop(number, true);
}

void probe_status(struct probe_status *status)
{
	struct probe_settings settings;

	pthread_mutex_lock(&lock);
	*status = (struct probe_status){
	        .sessions = shared_settings(&settings),
	        .callbacks = probe_callbacks_count(),
	        .windows = probe_windows(),
	        .skipped_windows = skipped_windows,
	        .sample_us = settings.sample_us,
	        .period_us = settings.period_us,
	        .rx_callback_cycles = rx_callback_cycles,
	        .tx_callback_cycles = tx_callback_cycles,
	};
	pthread_mutex_unlock(&lock);
}
