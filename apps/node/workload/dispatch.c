/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off */
/*
 * Request dispatching (HyperPlane section V-A): identify the type of a request, make the remote procedure call for it and send
 * that to a back end of the type. The type is the low half byte of byte 2 of the UDP payload, which is the lowest of the
 * sequence number in the generator's stamp. The call is ONC RPC (RFC 5531) over UDP, in XDR (RFC 4506), without credentials and
 * verifier. Its argument is the payload (payload.h), as variable-length opaque data:
 *
 *	headers, stamp | xid, 0 (call), 2, program, version, procedure, 0, 0, 0, 0 | length | payload, to a multiple of 4 |
 *	            60 |                                                      40 |      4 |                             |
 */
/* clang-format on */
#include <rte_jhash.h>
#include <rte_malloc.h>

#include "payload.h"
#include "prefetch.h"
#include "task.h"

#define TYPES           16
#define TYPE_OFFSET     (RTE_ETHER_HDR_LEN + sizeof(struct rte_ipv4_hdr) + sizeof(struct rte_udp_hdr) + 2)
#define BACK_ENDS       4 /* per type */
#define BACK_END_PORT   4000
#define FIRST_PROGRAM   0x20000000u /* defined by the user (RFC 5531 section 13) */
#define RPC_VERSION     2
#define PROGRAM_VERSION 1
#define CALL_WORDS      11 /* with the length of the argument */
#define XDR_UNIT        4

/* The part that all calls of a type share, in network byte order. */
struct request_type {
	uint32_t call[CALL_WORDS];
	rte_be32_t back_ends[BACK_ENDS];
	rte_be16_t port;
};

struct dispatcher_table {
	uint32_t calls; /* made so far: the next xid */
	struct request_type types[TYPES];
};

static inline uint32_t request_padding(uint32_t bytes)
{
	return -bytes & (XDR_UNIT - 1);
}

static inline bool prepare_call(struct dispatcher_table *table, const struct rte_ether_hdr *next_hop,
                                struct rte_mbuf *packet)
{
	const uint32_t payload = payload_bytes(packet), padding = request_padding(payload);

	if (unlikely(payload == 0))
		return false;
	const struct request_type *type =
	        &table->types[*rte_pktmbuf_mtod_offset(packet, const uint8_t *, TYPE_OFFSET) % TYPES];
	uint8_t *tail = (uint8_t *)rte_pktmbuf_append(packet, (uint16_t)padding);
	uint8_t *head = tail ? payload_open(packet, sizeof(type->call)) : NULL;

	if (unlikely(!head))
		return false;
	const uint32_t xid = rte_cpu_to_be_32(table->calls++), length = rte_cpu_to_be_32(payload);

	memset(tail, 0, padding);
	memcpy(head, type->call, sizeof(type->call));
	memcpy(head, &xid, sizeof(xid));
	memcpy(head + sizeof(type->call) - sizeof(length), &length, sizeof(length));
	struct rte_ipv4_hdr *ip = payload_ipv4(packet);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);

	/* A client keeps one back end per type. */
	ip->dst_addr = type->back_ends[rte_jhash_1word(ip->src_addr, udp->src_port) % BACK_ENDS];
	udp->dst_port = type->port;
	payload_forward(packet, next_hop, (uint32_t)sizeof(type->call) + padding);
	return true;
}

static uint16_t process_dispatch(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	uint16_t kept = 0;

	queue_data_use(p->task->data, packets, n);
	prefetch_first(packets, n);
	for (uint16_t i = 0; i < n; i++) {
		prefetch_ahead(packets, i, n);
		if (likely(prepare_call(p->task->own, &p->task->next_hop, packets[i])))
			packets[kept++] = packets[i];
		else
			rte_pktmbuf_free(packets[i]);
	}
	return kept;
}

static void make_type(struct request_type *type, uint8_t number)
{
	const uint32_t call[CALL_WORDS] = {[2] = rte_cpu_to_be_32(RPC_VERSION),
	                                   [3] = rte_cpu_to_be_32(FIRST_PROGRAM + number),
	                                   [4] = rte_cpu_to_be_32(PROGRAM_VERSION),
	                                   [5] = rte_cpu_to_be_32(number)};

	memcpy(type->call, call, sizeof(call));
	type->port = rte_cpu_to_be_16((uint16_t)(BACK_END_PORT + number));
	/* 198.19.TYPE.1 and following, from the range for benchmarks (RFC 2544) */
	for (uint8_t i = 0; i < BACK_ENDS; i++)
		type->back_ends[i] = rte_cpu_to_be_32(RTE_IPV4(198, 19, number, i + 1));
}

static int prepare(const struct workload_spec *spec, struct poller *poller, struct node_error *err)
{
	struct dispatcher_table *table;

	poller->task = task_new(spec, poller->lcore, err);
	if (!poller->task)
		return -1;
	table = rte_zmalloc_socket("dispatch", sizeof(*table), RTE_CACHE_LINE_SIZE,
	                           (int)rte_lcore_to_socket_id(poller->lcore));
	if (!table)
		return node_fail(err, "dut", "out of memory");
	for (uint8_t i = 0; i < TYPES; i++)
		make_type(&table->types[i], i);
	poller->task->own = table;
	poller->task->free_own = rte_free;
	return 0;
}

const struct workload workload_dispatch = {
        .receives = true,
        .sends = true,
        .process = process_dispatch,
        .resizes = true,
        .prepare = prepare,
};
