/* SPDX-License-Identifier: BSD-3-Clause */
/* The ready set QWAIT_LINEAR: an unsorted list under a lock, which the paper compares with (section V-E). */
#include "qwait.h"

static void list_lock(struct qwait_list *list)
{
	while (qwait_exchange(&list->lock, 1))
		while (qwait_peek(&list->lock))
			qwait_pause();
}

static void list_unlock(struct qwait_list *list)
{
	qwait_store(&list->lock, 0);
}

/* Returns list->count if the queue is not in the list. */
static uint32_t place_of(const struct qwait_list *list, uint32_t qid)
{
	uint32_t i = 0;

	while (i < list->count && list->qids[i] != qid)
		i++;
	return i;
}

static void remove_from(struct qwait_list *list, uint32_t place)
{
	list->qids[place] = list->qids[list->count - 1];
	qwait_store(&list->count, list->count - 1);
}

void qwait_list_set(struct qwait *set, uint32_t qid)
{
	struct qwait_list *list = &set->list;
	uint32_t i;

	list_lock(list);
	i = place_of(list, qid);
	if (i == list->count) {
		list->qids[i] = qid;
		qwait_store(&list->count, i + 1);
	}
	list_unlock(list);
}

/* Finds the next queue in circular order by looking at all, because the list is not sorted. */
uint32_t qwait_list_take(struct qwait *set, uint32_t from)
{
	struct qwait_list *list = &set->list;
	uint32_t best = QWAIT_NONE, nearest = UINT32_MAX, at = 0;

	if (qwait_load(&list->count) == 0)
		return QWAIT_NONE;
	list_lock(list);
	const uint32_t count = list->count;

	for (uint32_t i = 0; i < count; i++) {
		const uint32_t qid = list->qids[i];
		const uint32_t distance = qid >= from ? qid - from : qid + set->config.queues - from;

		if (distance < nearest) {
			nearest = distance;
			best = qid;
			at = i;
		}
	}
	if (best != QWAIT_NONE)
		remove_from(list, at);
	list_unlock(list);
	return best;
}

bool qwait_list_take_one(struct qwait *set, uint32_t qid)
{
	struct qwait_list *list = &set->list;

	list_lock(list);
	const uint32_t i = place_of(list, qid);
	const bool found = i < list->count;

	if (found)
		remove_from(list, i);
	list_unlock(list);
	return found;
}
