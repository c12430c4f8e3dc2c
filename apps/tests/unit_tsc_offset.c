/* SPDX-License-Identifier: BSD-3-Clause */
/* Check the ping-pong over two TSCs, one of which is shifted here; it needs no CPU of its own. */
#include "unit.h"

#include <pthread.h>

#include <rte_cycles.h>

#include "clock.h"
#include "tsc_offset.h"

#define LIMIT_S 2 /* two threads on one CPU alternate for each round */

struct player {
	struct tsc_ball ball;
	uint64_t ahead;
	uint64_t drift; /* cycles gained per round */
};

/* Answer like tsc_offset_answer(), on another clock. */
static void *answer_on_another_clock(void *arg)
{
	struct player *player = arg;
	uint32_t seen = 0, ping;

	while ((ping = atomic_load(&player->ball.ping)) != TSC_BALL_OVER) {
		if (ping == seen)
			continue;
		seen = ping;
		atomic_store(&player->ball.pong, rte_rdtsc_precise() + player->ahead + ping * player->drift);
	}
	return NULL;
}

static void *answer_on_this_clock(void *arg)
{
	struct player *player = arg;

	tsc_offset_answer(&player->ball);
	return NULL;
}

static struct tsc_offset play(struct player *player, void *(*answer)(void *))
{
	pthread_t thread;

	UNIT_EQUAL(pthread_create(&thread, NULL, answer, player), 0);
	const struct tsc_offset found = tsc_offset_ask(&player->ball, rte_rdtsc() + LIMIT_S * clock_tsc_hz());

	pthread_join(thread, NULL);
	UNIT_CHECK(found.rounds > 0);
	return found;
}

static void one_clock_is_no_offset(void)
{
	struct player player = {0};
	const struct tsc_offset found = play(&player, answer_on_this_clock);

	UNIT_CHECK(found.low <= 0 && found.high >= 0);
}

static void an_offset_lies_within_its_bounds(void)
{
	static const int64_t offsets[] = {INT64_C(1) << 40, -(INT64_C(1) << 40)};

	for (unsigned int i = 0; i < 2; i++) {
		struct player player = {.ahead = (uint64_t)offsets[i]};
		const struct tsc_offset found = play(&player, answer_on_another_clock);

		UNIT_CHECK(found.low <= offsets[i] && found.high >= offsets[i]);
		UNIT_CHECK(found.low > 0 || found.high < 0);
	}
}

static void an_offset_that_moves_has_no_bounds(void)
{
	struct player player = {.drift = UINT64_C(1) << 40};
	const struct tsc_offset found = play(&player, answer_on_another_clock);

	UNIT_CHECK(found.rounds > 1 && found.low > found.high);
}

static void without_an_answer_it_ends(void)
{
	struct tsc_ball ball = {0};
	const struct tsc_offset found = tsc_offset_ask(&ball, rte_rdtsc() + 1000000);

	UNIT_EQUAL(found.rounds, 0);
	UNIT_EQUAL(ball.ping, TSC_BALL_OVER);
}

static const struct unit_case cases[] = {
        {"one clock is no offset", one_clock_is_no_offset},
        {"an offset lies within its bounds", an_offset_lies_within_its_bounds},
        {"an offset that moves has no bounds", an_offset_that_moves_has_no_bounds},
        {"without an answer it ends", without_an_answer_it_ends},
        {NULL, NULL},
};

const struct unit_suite unit_tsc_offset = {"tsc-offset", cases};
