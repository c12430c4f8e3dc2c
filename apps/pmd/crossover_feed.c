/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <math.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_ip.h>
#include <rte_malloc.h>
#include <rte_udp.h>

#include "../lib/routes.h"
#include "crossover.h"

/* RFC 2544 appendix C: 198.18.0.0/15 is reserved for benchmarks. A DUT has routes for the destinations. */
#define SOURCE_NETWORK   RTE_IPV4(198u, 18, 0, 0)
#define DESTINATION_HOST 1
#define SOURCE_PORT      49152 /* first dynamic port, RFC 6335 */
#define DESTINATION_PORT 9     /* discard, RFC 863 */
#define TTL_HOPS         64

#define HEADER_BYTES (sizeof(struct rte_ether_hdr) + sizeof(struct rte_ipv4_hdr) + sizeof(struct rte_udp_hdr))

#define FRAME_TYPE (RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_UDP)

_Static_assert(HEADER_BYTES <= CROSSOVER_TEMPLATE_BYTES, "the template holds the headers");

static uint16_t frame_bytes(const struct crossover_rx_queue *rxq)
{
	return rxq->port->pair->options.frame_bytes - RTE_ETHER_CRC_LEN;
}

static void fill_template(const struct crossover_rx_queue *rxq, uint16_t flow,
                          struct crossover_template *template)
{
	const struct crossover_port *port = rxq->port;
	struct rte_ether_hdr *ether = (struct rte_ether_hdr *)template->head;
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(ether + 1);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);
	uint16_t length = frame_bytes(rxq), ip_bytes = length - sizeof(*ether);
	uint32_t hash = 0;

	memset(template, 0, sizeof(*template));
	ether->dst_addr = port->mac_addrs[0];
	ether->src_addr = port->peer->mac_addrs[0];
	ether->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->total_length = rte_cpu_to_be_16(ip_bytes);
	ip->time_to_live = TTL_HOPS;
	ip->next_proto_id = IPPROTO_UDP;
	ip->src_addr = rte_cpu_to_be_32(SOURCE_NETWORK | flow);
	ip->dst_addr = rte_cpu_to_be_32(route_address(flow % ROUTES_DEFAULT, DESTINATION_HOST));
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	udp->src_port = rte_cpu_to_be_16(SOURCE_PORT + flow % (UINT16_MAX - SOURCE_PORT));
	udp->dst_port = rte_cpu_to_be_16(DESTINATION_PORT);
	udp->dgram_len = rte_cpu_to_be_16(ip_bytes - sizeof(*ip));
	template->writeback = length | WIRE_DD | WIRE_EOP | crossover_describe_type(port, FRAME_TYPE);
	if (port->report_hash &&
	    crossover_hash_frame(&port->hash[port->active_hash], template->head, HEADER_BYTES, &hash))
		template->writeback |= WIRE_HASH | (uint64_t)hash << WIRE_HASH_SHIFT;
}

int crossover_feed_init(struct crossover_rx_queue *rxq)
{
	uint16_t flows = rxq->port->pair->options.flows;
	uint16_t queues = RTE_MAX(rxq->port->nb_rx_queues, (uint16_t)1);
	uint16_t count = rxq->queue_id < flows ? (flows - rxq->queue_id + queues - 1) / queues : 1;

	if (frame_bytes(rxq) > rxq->buffer_bytes)
		return CROSSOVER_REFUSE(
		        -EINVAL,
		        "queue %u: size=%u does not fit one buffer of %u bytes; feed=infinite does not "
		        "scatter",
		        rxq->queue_id, rxq->port->pair->options.frame_bytes, rxq->buffer_bytes);
	crossover_feed_release(rxq);
	rxq->templates =
	        rte_malloc_socket("crossover_feed", count * sizeof(*rxq->templates) + CROSSOVER_APART_BYTES,
	                          CROSSOVER_LINE_BYTES, rxq->port->pair->socket_id);
	if (rxq->templates == NULL)
		return -ENOMEM;
	for (uint16_t i = 0; i < count; i++)
		fill_template(rxq, (uint16_t)((rxq->queue_id + i * queues) % flows), &rxq->templates[i]);
	rxq->nb_templates = count;
	rxq->next_template = 0;
	return 0;
}

void crossover_feed_release(struct crossover_rx_queue *rxq)
{
	rte_free(rxq->templates);
	rxq->templates = NULL;
}

static void fill(struct crossover_rx_queue *rxq, struct crossover_rx_desc *desc, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct crossover_template *template = &rxq->templates[rxq->next_template];
		struct rte_mbuf *m = (struct rte_mbuf *)(uintptr_t)desc[i].buffer;

		memcpy((uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM, template->head, sizeof(template->head));
		desc[i].writeback = template->writeback;
		if (++rxq->next_template == rxq->nb_templates)
			rxq->next_template = 0;
	}
}

void crossover_feed_post(struct crossover_rx_queue *rxq, struct crossover_rx_desc *desc, uint32_t count)
{
	if (!rxq->cold)
		fill(rxq, desc, count);
}

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014), as a number in (0, 1]. */
static double random_share(struct crossover_rx_queue *rxq)
{
	uint64_t z = rxq->random_state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (double)(((z ^ (z >> 31)) >> 11) + 1) * 0x1p-53;
}

/* Returns the polls until one finds a packet, that one included: geometric, by inversion. */
static uint32_t draw_queue_polls(struct crossover_rx_queue *rxq)
{
	double queue_polls = UINT32_MAX;

	if (rxq->cold && rxq->probability > 0)
		queue_polls = 1 + floor(log(random_share(rxq)) * rxq->gap_scale);
	return queue_polls < UINT32_MAX ? (uint32_t)queue_polls : UINT32_MAX;
}

void crossover_feed_arrive(struct crossover_rx_queue *rxq)
{
	if (rxq->cold && rxq->probability > 0 && rxq->unposted < rxq->size)
		fill(rxq, &rxq->desc[rxq->position], 1);
	rxq->queue_polls_left = draw_queue_polls(rxq);
}

static void rearm_posted(struct crossover_rx_queue *rxq)
{
	uint32_t posted = rxq->size - rxq->unposted, position = rxq->position;

	for (uint32_t i = 0; i < posted; i++) {
		rxq->desc[position].writeback = 0;
		crossover_feed_post(rxq, &rxq->desc[position], 1);
		position = crossover_ring_advance(position, 1, rxq->size);
	}
}

int crossover_feed_set_queue_polls(struct crossover_rx_queue *rxq, double probability, uint64_t seed)
{
	if (!(probability >= 0 && probability <= 1))
		return -EINVAL;
	rxq->cold = probability < 1;
	rxq->probability = probability;
	rxq->gap_scale = rxq->cold && probability > 0 ? 1 / log1p(-probability) : 0;
	rxq->random_state = seed;
	rxq->queue_polls_left = draw_queue_polls(rxq);
	if (rxq->started)
		rearm_posted(rxq);
	return 0;
}

void crossover_feed_count(struct crossover_rx_queue *rxq, struct rte_mbuf *const *pkts, uint16_t count)
{
	rxq->fed_packets += count;
	rxq->fed_bytes += (uint64_t)count * pkts[0]->pkt_len;
}
