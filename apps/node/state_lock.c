/* SPDX-License-Identifier: BSD-3-Clause */
#include "state_lock.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void state_lock(void)
{
	pthread_mutex_lock(&mutex);
}

void state_unlock(void)
{
	pthread_mutex_unlock(&mutex);
}
