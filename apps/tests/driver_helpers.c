/* SPDX-License-Identifier: BSD-3-Clause */
/* Set-up of ports and making, sending and checking of frames for the driver suite. */
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ip.h>
#include <rte_pause.h>
#include <rte_udp.h>

#include "driver_suite.h"

#define DEFAULT_DESC 512
#define HEADER_BYTES (sizeof(struct rte_ether_hdr) + sizeof(struct rte_ipv4_hdr) + sizeof(struct rte_udp_hdr))

static uint16_t or_default(uint16_t value, uint16_t fallback)
{
	return value == 0 ? fallback : value;
}

static int configure(uint16_t port, const struct port_setup *setup)
{
	struct rte_eth_conf conf = {
	        .rxmode = {.mtu = or_default(setup->mtu, RTE_ETHER_MTU), .offloads = setup->rx_offloads},
	        .txmode = {.offloads = setup->tx_offloads},
	        .intr_conf = {.lsc = setup->lsc},
	};

	if (setup->rss_types != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = setup->rss_types;
	}
	return rte_eth_dev_configure(port, or_default(setup->rx_queues, 1), or_default(setup->tx_queues, 1),
	                             &conf);
}

static int set_up_rx(uint16_t port, const struct port_setup *setup)
{
	struct rte_eth_rxconf conf = {.rx_free_thresh = setup->rx_free_thresh,
	                              .rx_deferred_start = setup->rx_deferred};
	struct rte_mempool *from = setup->rx_pool == NULL ? pool : setup->rx_pool;
	int ret = 0;

	for (uint16_t i = 0; i < or_default(setup->rx_queues, 1) && ret == 0; i++)
		ret = rte_eth_rx_queue_setup(port, i, or_default(setup->rx_desc, DEFAULT_DESC), SOCKET_ID_ANY,
		                             &conf, from);
	return ret;
}

static int set_up_tx(uint16_t port, const struct port_setup *setup)
{
	struct rte_eth_txconf conf = {.tx_free_thresh = setup->tx_free_thresh,
	                              .tx_deferred_start = setup->tx_deferred};
	int ret = 0;

	for (uint16_t i = 0; i < or_default(setup->tx_queues, 1) && ret == 0; i++)
		ret = rte_eth_tx_queue_setup(port, i, or_default(setup->tx_desc, DEFAULT_DESC), SOCKET_ID_ANY,
		                             &conf);
	return ret;
}

int port_up(uint16_t port, const struct port_setup *setup)
{
	static const struct port_setup plain;
	int ret;

	if (setup == NULL)
		setup = &plain;
	ret = configure(port, setup);
	if (ret == 0)
		ret = set_up_rx(port, setup);
	if (ret == 0)
		ret = set_up_tx(port, setup);
	if (ret == 0 && !setup->leave_stopped)
		ret = rte_eth_dev_start(port);
	return ret;
}

void pair_up(const struct port_setup *a, const struct port_setup *b)
{
	rte_eth_dev_stop(port_a);
	rte_eth_dev_stop(port_b);
	CHECK_EQUAL(port_up(port_a, a), 0);
	CHECK_EQUAL(port_up(port_b, b), 0);
	CHECK_EQUAL(rte_eth_promiscuous_enable(port_a), 0);
	CHECK_EQUAL(rte_eth_promiscuous_enable(port_b), 0);
}

int steer_all(uint16_t port, uint16_t queue)
{
	struct rte_eth_rss_reta_entry64 reta[RETA_SIZE / RTE_ETH_RETA_GROUP_SIZE];

	for (unsigned int i = 0; i < RETA_SIZE; i++)
		reta[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] = queue;
	for (unsigned int group = 0; group < RTE_DIM(reta); group++)
		reta[group].mask = UINT64_MAX;
	return rte_eth_dev_rss_reta_update(port, reta, RETA_SIZE);
}

static uint8_t pattern(uint32_t flow, uint32_t at)
{
	return (uint8_t)(flow * 31 + at * 7 + (at >> 8));
}

static void write_headers(uint8_t *frame, uint32_t bytes, uint32_t flow)
{
	struct rte_ether_hdr *ether = (struct rte_ether_hdr *)frame;
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(ether + 1);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);

	memset(frame, 0, HEADER_BYTES);
	memset(&ether->dst_addr, 0x02, sizeof(ether->dst_addr));
	memset(&ether->src_addr, 0x06, sizeof(ether->src_addr));
	ether->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->total_length = rte_cpu_to_be_16((uint16_t)(bytes - sizeof(*ether)));
	ip->next_proto_id = IPPROTO_UDP;
	ip->src_addr = rte_cpu_to_be_32(RTE_IPV4(198u, 18, 0, 1) + flow);
	ip->dst_addr = rte_cpu_to_be_32(RTE_IPV4(198u, 19, 0, 1));
	udp->src_port = rte_cpu_to_be_16((uint16_t)(1024 + flow));
	udp->dst_port = rte_cpu_to_be_16(9);
}

static uint8_t expected_byte(uint32_t bytes, uint32_t flow, uint32_t at)
{
	uint8_t headers[HEADER_BYTES];

	if (at >= HEADER_BYTES)
		return pattern(flow, at);
	write_headers(headers, bytes, flow);
	return headers[at];
}

struct rte_mbuf *frame_make(struct rte_mempool *from, uint32_t bytes, uint32_t flow)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(from);
	uint8_t *frame, headers[HEADER_BYTES];

	if (m == NULL)
		return NULL;
	frame = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)bytes);
	if (frame == NULL) {
		rte_pktmbuf_free(m);
		return NULL;
	}
	write_headers(headers, bytes, flow);
	memcpy(frame, headers, RTE_MIN(bytes, (uint32_t)HEADER_BYTES));
	for (uint32_t at = HEADER_BYTES; at < bytes; at++)
		frame[at] = pattern(flow, at);
	return m;
}

bool frame_is(const struct rte_mbuf *m, uint32_t bytes, uint32_t flow)
{
	uint32_t at = 0;

	if (m == NULL || m->pkt_len != bytes)
		return false;
	for (const struct rte_mbuf *segment = m; segment != NULL; segment = segment->next)
		for (uint32_t i = 0; i < segment->data_len; i++, at++)
			if (rte_pktmbuf_mtod(segment, const uint8_t *)[i] != expected_byte(bytes, flow, at))
				return false;
	return at == bytes;
}

bool frame_is_udp(const struct rte_mbuf *m, uint32_t bytes)
{
	const struct rte_ether_hdr *ether = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(ether + 1);
	const struct rte_udp_hdr *udp = (const struct rte_udp_hdr *)(ip + 1);
	struct rte_ether_addr own;

	return m->pkt_len == bytes && m->data_len == bytes && m->nb_segs == 1 &&
	       ether->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) &&
	       rte_eth_macaddr_get(m->port, &own) == 0 && rte_is_same_ether_addr(&own, &ether->dst_addr) &&
	       rte_ipv4_cksum(ip) == 0 && rte_be_to_cpu_16(ip->total_length) == bytes - sizeof(*ether) &&
	       ip->time_to_live > 1 &&
	       rte_be_to_cpu_16(udp->dgram_len) == bytes - sizeof(*ether) - sizeof(*ip) &&
	       udp->dgram_cksum == 0;
}

static struct rte_mbuf *copy_segment(const struct rte_mbuf *whole, uint32_t at, uint32_t bytes)
{
	struct rte_mbuf *segment = rte_pktmbuf_alloc(pool);

	if (segment != NULL)
		memcpy(rte_pktmbuf_append(segment, (uint16_t)bytes),
		       rte_pktmbuf_mtod_offset(whole, const uint8_t *, at), bytes);
	return segment;
}

struct rte_mbuf *frame_cut(const struct rte_mbuf *whole, uint32_t first, uint32_t bytes)
{
	struct rte_mbuf *head = copy_segment(whole, 0, RTE_MIN(first, whole->pkt_len));

	for (uint32_t at = first; head != NULL && at < whole->pkt_len; at += bytes) {
		struct rte_mbuf *segment = copy_segment(whole, at, RTE_MIN(bytes, whole->pkt_len - at));

		if (segment == NULL || rte_pktmbuf_chain(head, segment) != 0) {
			rte_pktmbuf_free(segment);
			rte_pktmbuf_free(head);
			return NULL;
		}
	}
	return head;
}

bool send_one(uint16_t port, uint16_t queue, struct rte_mbuf *m)
{
	if (m != NULL && rte_eth_tx_burst(port, queue, &m, 1) == 1)
		return true;
	rte_pktmbuf_free(m);
	return false;
}

bool send_frames(uint16_t port, uint16_t queue, unsigned int count, uint32_t bytes)
{
	for (unsigned int done = 0; done < count;) {
		unsigned int wanted = RTE_MIN(count - done, (unsigned int)BURST), sent;
		struct rte_mbuf *burst[BURST];

		for (unsigned int i = 0; i < wanted; i++)
			burst[i] = frame_make(pool, bytes, done + i);
		if (burst[wanted - 1] == NULL) {
			rte_pktmbuf_free_bulk(burst, wanted);
			return false;
		}
		sent = rte_eth_tx_burst(port, queue, burst, (uint16_t)wanted);
		rte_pktmbuf_free_bulk(burst + sent, wanted - sent);
		if (sent < wanted)
			return false;
		done += sent;
	}
	return true;
}

unsigned int receive_all(uint16_t port, uint16_t queue)
{
	struct rte_mbuf *burst[BURST];
	unsigned int total = 0, received;

	do {
		received = rte_eth_rx_burst(port, queue, burst, BURST);
		rte_pktmbuf_free_bulk(burst, received);
		total += received;
	} while (received > 0);
	return total;
}

struct rte_mbuf *receive_one(uint16_t port, uint16_t queue)
{
	struct rte_mbuf *m = NULL;

	return rte_eth_rx_burst(port, queue, &m, 1) == 1 ? m : NULL;
}

struct rte_mbuf *must_receive(uint16_t port, uint16_t queue)
{
	struct rte_mbuf *m = receive_one(port, queue);

	CHECK(m != NULL, "no frame at port %u, queue %u", port, queue);
	return m;
}

void expect_frame(uint16_t port, uint16_t queue, uint32_t bytes, uint32_t flow, uint16_t segments)
{
	struct rte_mbuf *m = must_receive(port, queue);
	bool right = frame_is(m, bytes, flow) && m->nb_segs == segments;

	rte_pktmbuf_free(m);
	CHECK(right, "frame %u of %u bytes is damaged, or another came", flow, bytes);
}

void number_frame(struct rte_mbuf *m, uint32_t number)
{
	uint32_t *data = (uint32_t *)rte_pktmbuf_append(m, FRAME_BYTES);

	for (unsigned int word = 0; word < FRAME_BYTES / 4; word++)
		data[word] = number;
}

uint32_t number_of(const struct rte_mbuf *m)
{
	const uint32_t *data = rte_pktmbuf_mtod(m, const uint32_t *);
	bool right = m->pkt_len == FRAME_BYTES && m->nb_segs == 1;

	for (unsigned int word = 1; word < FRAME_BYTES / 4; word++)
		right = right && data[word] == data[0];
	return right ? data[0] : UINT32_MAX;
}

uint32_t send_numbered(uint16_t port, uint16_t queue, uint32_t from, uint32_t count)
{
	const uint64_t limit = rte_get_tsc_cycles() + LIMIT_S * rte_get_tsc_hz();
	uint32_t n = 0;

	while (n < count && !lcores_stop() && rte_get_tsc_cycles() < limit) {
		struct rte_mbuf *burst[8];
		uint16_t sent;

		if (rte_pktmbuf_alloc_bulk(pool, burst, RTE_DIM(burst)) != 0) {
			rte_pause();
			continue;
		}
		for (uint32_t i = 0; i < RTE_DIM(burst); i++)
			number_frame(burst[i], from + n + i);
		sent = rte_eth_tx_burst(port, queue, burst, RTE_DIM(burst));
		rte_pktmbuf_free_bulk(burst + sent, RTE_DIM(burst) - sent);
		n += sent;
	}
	return n;
}

unsigned int pool_drain(struct rte_mempool *from, struct rte_mbuf **taken)
{
	unsigned int count = 0;

	while (count < POOL_MBUFS && (taken[count] = rte_pktmbuf_alloc(from)) != NULL)
		count++;
	return count;
}

bool link_is(uint16_t port, int status)
{
	struct rte_eth_link link;

	return rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == status &&
	       link.link_speed ==
	               (status == RTE_ETH_LINK_UP ? RTE_ETH_SPEED_NUM_100G : RTE_ETH_SPEED_NUM_NONE);
}

struct rte_eth_stats stats_of(uint16_t port)
{
	struct rte_eth_stats stats;

	if (rte_eth_stats_get(port, &stats) != 0)
		memset(&stats, 0xff, sizeof(stats));
	return stats;
}

uint64_t xstat_of(uint16_t port, const char *name)
{
	uint64_t id, value;

	if (rte_eth_xstats_get_id_by_name(port, name, &id) != 0 ||
	    rte_eth_xstats_get_by_id(port, &id, &value, 1) != 1)
		return UINT64_MAX;
	return value;
}
