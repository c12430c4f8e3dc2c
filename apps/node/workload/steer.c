/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packet steering (HyperPlane section V-A): a hash table maps sessions to servers. A session is an IPv4 flow; its first packet
 * binds it to the next server, round-robin. A packet goes to its server unchanged except for the MAC addresses, as in direct
 * routing. Sessions are never removed. When the table is full, later sessions have no entry and go to the server that their
 * hash selects.
 */
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_malloc.h>

#include "prefetch.h"
#include "task.h"

#define SERVERS      64
#define KEY_SEED     0
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17

struct session_key {
	uint32_t source;
	uint32_t destination;
	uint32_t ports; /* 0: of another protocol, or a fragment */
	uint32_t protocol;
};

struct steering {
	struct rte_hash *table; /* session_key -> server, as a pointer's value */
	uint32_t next_server;
	uint64_t refused; /* packets of sessions that found the table full */
};

static inline bool read_key(const struct rte_mbuf *packet, struct session_key *key)
{
	const struct rte_ether_hdr *ethernet = rte_pktmbuf_mtod(packet, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(ethernet + 1);

	if (unlikely(packet->data_len < sizeof(*ethernet) + sizeof(*ip) + sizeof(key->ports) ||
	             ethernet->ether_type != RTE_BE16(RTE_ETHER_TYPE_IPV4)))
		return false;
	const bool has_ports =
	        ip->version_ihl == RTE_IPV4_VHL_DEF &&
	        (ip->next_proto_id == PROTOCOL_TCP || ip->next_proto_id == PROTOCOL_UDP) &&
	        (ip->fragment_offset & RTE_BE16(RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK)) == 0;

	*key = (struct session_key){
	        .source = ip->src_addr, .destination = ip->dst_addr, .protocol = ip->next_proto_id};
	if (likely(has_ports))
		memcpy(&key->ports, ip + 1, sizeof(key->ports));
	return true;
}

/* Bind a session that was not in the table a moment ago. Returns its server. */
static __rte_noinline uintptr_t bind_session(struct steering *steering, const struct session_key *key)
{
	void *server;

	if (rte_hash_lookup_data(steering->table, key, &server) >= 0)
		return (uintptr_t)server;
	server = (void *)(uintptr_t)(steering->next_server % SERVERS);
	if (rte_hash_add_key_data(steering->table, key, server) == 0) {
		steering->next_server++;
		return (uintptr_t)server;
	}
	steering->refused++;
	return rte_hash_crc(key, sizeof(*key), KEY_SEED) % SERVERS;
}

static inline void redirect(const struct task *task, struct rte_mbuf *packet, uintptr_t server)
{
	struct rte_ether_hdr *ethernet = rte_pktmbuf_mtod(packet, struct rte_ether_hdr *);

	/* locally administered: 02:00:00:00:01, then the number of the server */
	ethernet->dst_addr = (struct rte_ether_addr){{0x02, 0, 0, 0, 1, (uint8_t)server}};
	ethernet->src_addr = task->next_hop.src_addr;
}

/* At most RTE_HASH_LOOKUP_BULK_MAX packets, all of them with a key. */
static inline void steer_some(const struct task *task, struct rte_mbuf **packets,
                              const struct session_key *keys, uint16_t n)
{
	struct steering *steering = task->own;
	const void *wanted[RTE_HASH_LOOKUP_BULK_MAX];
	void *servers[RTE_HASH_LOOKUP_BULK_MAX];
	uint64_t known = 0;

	for (uint16_t i = 0; i < n; i++)
		wanted[i] = &keys[i];
	rte_hash_lookup_bulk_data(steering->table, wanted, n, &known, servers);
	for (uint16_t i = 0; i < n; i++) {
		const bool found = known & UINT64_C(1) << i;

		redirect(task, packets[i],
		         likely(found) ? (uintptr_t)servers[i] : bind_session(steering, &keys[i]));
	}
}

static uint16_t process_steer(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	struct session_key keys[ACCOUNT_BURST_MAX];
	uint16_t kept = 0;

	queue_data_use(p->task->data, packets, n);
	prefetch_first(packets, n);
	for (uint16_t i = 0; i < n; i++) {
		prefetch_ahead(packets, i, n);
		if (likely(read_key(packets[i], &keys[kept])))
			packets[kept++] = packets[i];
		else
			rte_pktmbuf_free(packets[i]);
	}
	for (uint16_t done = 0; done < kept; done += RTE_HASH_LOOKUP_BULK_MAX)
		steer_some(p->task, packets + done, keys + done,
		           RTE_MIN((uint16_t)(kept - done), (uint16_t)RTE_HASH_LOOKUP_BULK_MAX));
	return kept;
}

static void free_steering(void *own)
{
	struct steering *steering = own;

	rte_hash_free(steering->table);
	rte_free(steering);
}

static json_t *report_steering(const void *own)
{
	const struct steering *steering = own;

	return json_pack("{s:I,s:I}", "sessions", (json_int_t)rte_hash_count(steering->table), "refused",
	                 (json_int_t)steering->refused);
}

static struct steering *new_steering(uint32_t sessions, unsigned int lcore, struct node_error *err)
{
	static unsigned int generation; /* the earlier table may still hold its name */
	const int socket = (int)rte_lcore_to_socket_id(lcore);
	char name[RTE_HASH_NAMESIZE];
	const struct rte_hash_parameters parameters = {
	        .name = name,
	        .entries = sessions,
	        .key_len = sizeof(struct session_key),
	        .hash_func = rte_hash_crc,
	        .hash_func_init_val = KEY_SEED,
	        .socket_id = socket,
	};
	struct steering *steering =
	        rte_zmalloc_socket("steering", sizeof(*steering), RTE_CACHE_LINE_SIZE, socket);

	snprintf(name, sizeof(name), "sessions.%u", generation++);
	if (steering)
		steering->table = rte_hash_create(&parameters);
	if (steering && steering->table)
		return steering;
	node_fail(err, "dut.sessions", "no table of %u sessions: %s", sessions,
	          steering ? rte_strerror(rte_errno) : "out of memory");
	rte_free(steering);
	return NULL;
}

static int prepare(const struct workload_spec *spec, struct poller *poller, struct node_error *err)
{
	poller->task = task_new(spec, poller->lcore, err);
	if (!poller->task)
		return -1;
	poller->task->free_own = free_steering;
	poller->task->report_own = report_steering;
	poller->task->own = new_steering(spec->sessions, poller->lcore, err);
	return poller->task->own ? 0 : -1;
}

const struct workload workload_steer = {
        .receives = true,
        .sends = true,
        .process = process_steer,
        .prepare = prepare,
};
