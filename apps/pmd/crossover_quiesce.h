/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps the control path from pulling a ring out from under a sender, without a fence in the send path.
 *
 * A sender marks its TX queue busy, then loads the peer's gate and rings; a control thread changes gate or rings, then
 * waits until every TX queue was seen idle once. The store and the load of the sender must not pass each other. Instead
 * of a full fence a burst (about 20 cycles), the control thread makes every registered process pass one by
 * membarrier(2). Where the kernel lacks it, senders fence.
 */
#ifndef CROSSOVER_QUIESCE_H
#define CROSSOVER_QUIESCE_H

#include "crossover_port.h"

/* Registers this process for membarrier(2). Once per process and port; sets port->full_fence where that fails. */
void crossover_quiesce_register(struct crossover_port *port);

/*
 * Waits until no sender still uses what 'port' showed it before the call: all TX queues of the peer were idle once.
 * Returns 0, or -EBUSY after CROSSOVER_QUIESCE_MAX_NS if a sender does not leave its burst (stopped or killed process).
 */
int crossover_quiesce(struct crossover_port *port);

#define CROSSOVER_QUIESCE_MAX_NS UINT64_C(1000000000)

static inline void crossover_burst_enter(struct crossover_tx_queue *txq)
{
	__atomic_store_n(&txq->busy, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(__atomic_load_n(&txq->peer->full_fence, __ATOMIC_RELAXED), 0))
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void crossover_burst_leave(struct crossover_tx_queue *txq)
{
	__atomic_store_n(&txq->busy, 0, __ATOMIC_RELEASE);
}

#endif
