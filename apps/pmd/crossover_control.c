/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "crossover.h"

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
		              "a process ended while it changed the pair; continuing with the state it left");
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

static int membarrier(int command)
{
	return (int)syscall(__NR_membarrier, command, 0, 0);
}

void crossover_quiesce_register(struct crossover_port *port)
{
	if (membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0)
		return;
	CROSSOVER_LOG(INFO, "no membarrier(2) (errno %d): senders use a full fence per burst", errno);
	__atomic_store_n(&port->full_fence, 1, __ATOMIC_SEQ_CST);
}

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool crossover_wait_until(uint64_t deadline_ns)
{
	sched_yield();
	return monotonic_ns() <= deadline_ns;
}

static int wait_idle(const struct crossover_tx_queue *txq, uint64_t deadline_ns)
{
	while (__atomic_load_n(&txq->busy, __ATOMIC_ACQUIRE)) {
		if (!crossover_wait_until(deadline_ns))
			return CROSSOVER_REFUSE(
			        -EBUSY, "port %u: TX queue %u stays inside a burst; is its process stopped?",
			        txq->port->port_id, txq->queue_id);
	}
	return 0;
}

int crossover_quiesce(struct crossover_port *port)
{
	uint64_t deadline_ns = monotonic_ns() + CROSSOVER_QUIESCE_MAX_NS;
	int ret = 0;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (port->wire != NULL)
		return crossover_external_quiesce(port, deadline_ns);
	if (!port->full_fence && membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0)
		CROSSOVER_LOG(ERR, "membarrier(2) failed after it was registered (errno %d)", errno);
	for (unsigned int i = 0; i < CROSSOVER_MAX_QUEUES && ret == 0; i++)
		if (port->peer->tx_queues[i] != NULL)
			ret = wait_idle(port->peer->tx_queues[i], deadline_ns);
	return ret;
}
