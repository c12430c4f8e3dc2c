/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <time.h>

#include "crossover_control.h"
#include "crossover_log.h"

int crossover_control_init(struct crossover_pair *pair)
{
	pthread_mutexattr_t attributes;
	int ret;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	ret = pthread_mutex_init(&pair->control, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return -ret;
}

int crossover_control_lock(struct crossover_pair *pair)
{
	struct timespec deadline;
	int ret;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += CROSSOVER_CONTROL_MAX_S;
	ret = pthread_mutex_timedlock(&pair->control, &deadline);
	if (ret == EOWNERDEAD) {
		CROSSOVER_LOG(WARNING,
		              "a process ended while it changed the pair; going on with what it left");
		ret = pthread_mutex_consistent(&pair->control);
	}
	if (ret != 0)
		CROSSOVER_LOG(ERR, "the pair stays locked by another control thread (error %d)", ret);
	return ret == 0 ? 0 : -EBUSY;
}

void crossover_control_unlock(struct crossover_pair *pair)
{
	pthread_mutex_unlock(&pair->control);
}
