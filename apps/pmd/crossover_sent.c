/* SPDX-License-Identifier: BSD-3-Clause */
#include "crossover_sent.h"

void crossover_sent_give_back(const struct crossover_tx_queue *txq, struct rte_mbuf *const *frames,
                              uint32_t count)
{
	if (txq->fast_free)
		rte_mempool_put_bulk(frames[0]->pool, (void *const *)frames, count);
	else
		rte_pktmbuf_free_bulk((struct rte_mbuf **)(uintptr_t)frames, count); /* reads them only */
}

void crossover_sent_free(struct crossover_tx_queue *txq, uint32_t count)
{
	uint32_t oldest = crossover_ring_advance(txq->position, txq->size - txq->pending, txq->size);
	uint32_t first = RTE_MIN(count, txq->size - oldest);

	if (first > 0)
		crossover_sent_give_back(txq, &txq->sent[oldest], first);
	if (count > first)
		crossover_sent_give_back(txq, &txq->sent[0], count - first);
	txq->pending -= count;
}

void crossover_sent_cut(struct rte_mbuf *head)
{
	rte_pktmbuf_free(head->next);
	head->next = NULL;
	head->nb_segs = 1;
	head->pkt_len = head->data_len;
}
