/* SPDX-License-Identifier: BSD-3-Clause */
/* Crypto forwarding (HyperPlane section V-A): every packet leaves with its payload encrypted by AES-256-CBC (encryptor.h). */
#include "encryptor.h"
#include "task.h"

static uint16_t process_crypto(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	queue_data_use(p->task->data, packets, n);
	return encryptor_encrypt(p->encryptor, packets, n);
}

static int prepare(const struct workload_spec *spec, struct poller *poller, struct node_error *err)
{
	struct encryptor_spec encryptor = {
	        .encryption = ENCRYPT_PAYLOAD,
	        .lcore = poller->lcore,
	        .number = (uint8_t)poller->tx_queue,
	};

	poller->task = task_new(spec, poller->lcore, err);
	if (!poller->task)
		return -1;
	encryptor.ethernet = poller->task->next_hop;
	poller->encryptor = encryptor_new(&encryptor, err);
	return poller->encryptor ? 0 : -1;
}

const struct workload workload_crypto = {
        .receives = true,
        .sends = true,
        .process = process_crypto,
        .resizes = true,
        .prepare = prepare,
};
