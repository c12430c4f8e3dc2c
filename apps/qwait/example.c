/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread rings the doorbells of 100 queues, another serves what is ready and never looks at an empty one. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "qwait.h"

#define QUEUES 100
#define ITEMS  1000

static struct qwait_doorbell bells[QUEUES];

static void *produce(void *argument)
{
	for (int i = 0; i < ITEMS; i++)
		qwait_ring(&bells[i * 7 % QUEUES], 1); /* a real one enqueues an item first */
	return argument;
}

int main(void)
{
	const struct qwait_config config = {.queues = QUEUES, .idle = QWAIT_SLEEP, .sleep_after_ns = 50000};
	struct qwait *set = aligned_alloc(QWAIT_LINE_BYTES, qwait_bytes(QUEUES));
	struct qwait_waiter waiter = {.set = set};
	uint32_t served = 0;
	pthread_t producer;

	if (set == NULL || qwait_init(set, &config) != 0)
		return EXIT_FAILURE;
	for (uint32_t qid = 0; qid < QUEUES; qid++)
		qwait_add(set, qid, &bells[qid], 1);
	pthread_create(&producer, NULL, produce, NULL);
	while (served < ITEMS) {
		const uint32_t qid = qwait(&waiter, 1000000);

		if (qid == QWAIT_NONE || !qwait_verify(&waiter, qid))
			continue;
		const uint32_t n = qwait_items(set, qid); /* a real one dequeues as many */

		served += n;
		qwait_took(&waiter, qid, n);
		qwait_reconsider(&waiter, qid);
	}
	pthread_join(producer, NULL);
	printf("%u items from %d queues\n", served, QUEUES);
	qwait_close(set);
	free(set);
}
