/* SPDX-License-Identifier: BSD-3-Clause */
#include "coder.h"

#include <isa-l.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

#include "payload.h"

#define BUFFERS_MAX (CODER_DATA_MAX + CODER_PARITY_MAX)
/* of ec_init_tables(), for each data buffer of each parity buffer */
#define TABLE_BYTES 32

struct coder {
	struct coder_spec spec;
	uint8_t *memory; /* data buffers, then parity buffers, without gaps */
	uint8_t tables[TABLE_BYTES * CODER_DATA_MAX * CODER_PARITY_MAX];
};

static uint32_t block_bytes(const struct coder *coder, uint32_t payload)
{
	return RTE_ALIGN_CEIL((payload + coder->spec.data - 1) / coder->spec.data,
	                      (uint32_t)CODER_BLOCK_BYTES);
}

static void make_tables(struct coder *coder)
{
	uint8_t matrix[BUFFERS_MAX * CODER_DATA_MAX];
	const int data = (int)coder->spec.data, parity = (int)coder->spec.parity;

	gf_gen_cauchy1_matrix(matrix, data + parity, data);
	ec_init_tables(data, parity, matrix + data * data, coder->tables);
}

struct coder *coder_new(const struct coder_spec *spec, struct node_error *err)
{
	const int socket = (int)rte_lcore_to_socket_id(spec->lcore);
	struct coder *coder = rte_zmalloc_socket("coder", sizeof(*coder), RTE_CACHE_LINE_SIZE, socket);

	if (coder) {
		coder->spec = *spec;
		coder->memory = rte_zmalloc_socket(
		        "stripe", (size_t)(spec->data + spec->parity) * block_bytes(coder, PAYLOAD_BYTES_MAX),
		        RTE_CACHE_LINE_SIZE, socket);
	}
	if (!coder || !coder->memory) {
		rte_free(coder);
		node_fail(err, "dut", "out of memory");
		return NULL;
	}
	if (spec->kind == CODER_REED_SOLOMON)
		make_tables(coder);
	return coder;
}

void coder_free(struct coder *coder)
{
	if (!coder)
		return;
	rte_free(coder->memory);
	rte_free(coder);
}

/* Fill the parity buffers behind the data buffers of this size. */
static bool make_parity(struct coder *coder, uint32_t bytes)
{
	const uint32_t data = coder->spec.data, parity = coder->spec.parity;
	uint8_t *buffers[BUFFERS_MAX];

	for (uint32_t i = 0; i < data + parity; i++)
		buffers[i] = coder->memory + (size_t)i * bytes;
	if (coder->spec.kind == CODER_P_Q)
		return pq_gen((int)(data + parity), (int)bytes, (void **)buffers) == 0;
	ec_encode_data((int)bytes, (int)data, (int)parity, coder->tables, buffers, buffers + data);
	return true;
}

bool coder_encode(struct coder *coder, struct rte_mbuf *packet)
{
	const uint32_t payload = payload_bytes(packet), block = block_bytes(coder, payload);
	const uint32_t data = coder->spec.data * block, parity = coder->spec.parity * block;

	if (unlikely(payload == 0 || payload > PAYLOAD_BYTES_MAX || parity > rte_pktmbuf_tailroom(packet)))
		return false;
	memcpy(coder->memory, rte_pktmbuf_mtod_offset(packet, uint8_t *, PAYLOAD_OFFSET), payload);
	memset(coder->memory + payload, 0, data - payload);
	if (unlikely(!make_parity(coder, block)))
		return false;
	memcpy(rte_pktmbuf_append(packet, (uint16_t)parity), coder->memory + data, parity);
	payload_forward(packet, &coder->spec.next_hop, parity);
	return true;
}
