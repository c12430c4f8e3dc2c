/* SPDX-License-Identifier: BSD-3-Clause */
#include "packets.h"

#include <assert.h>
#include <netinet/in.h>

#include <rte_byteorder.h>
#include <rte_ip.h>
#include <rte_udp.h>

#define IP_OFFSET   RTE_ETHER_HDR_LEN
#define UDP_OFFSET  (IP_OFFSET + sizeof(struct rte_ipv4_hdr))
#define MARK_OFFSET (UDP_OFFSET + sizeof(struct rte_udp_hdr))

/* packet_write() stores through these offsets, and writes these fields of the mbuf in one store. */
static_assert(MARK_OFFSET == 42, "the stamp must fill a 64-byte frame");
static_assert(offsetof(struct packet_flow, source) == 0 && offsetof(struct packet_flow, destination) == 4,
              "both addresses are copied at once");
static_assert(offsetof(struct rte_mbuf, data_off) + 8 == offsetof(struct rte_mbuf, ol_flags) &&
                      offsetof(struct rte_mbuf, ol_flags) + 8 == offsetof(struct rte_mbuf, packet_type) &&
                      offsetof(struct rte_mbuf, packet_type) + 12 == offsetof(struct rte_mbuf, hash),
              "fields of the mbuf image must be neighbours");

/* Return the sum of 16-bit words in memory order; `bytes` is even. */
static uint32_t word_sum(const void *data, size_t bytes)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < bytes; i += 2) {
		uint16_t word;

		memcpy(&word, (const uint8_t *)data + i, 2);
		sum += word;
	}
	return sum;
}

void packet_flow_init(struct packet_flow *flow, uint16_t number, uint32_t source, uint32_t destination,
                      uint16_t source_port)
{
	*flow = (struct packet_flow){
	        .source = rte_cpu_to_be_32(source),
	        .destination = rte_cpu_to_be_32(destination),
	        .source_port = rte_cpu_to_be_16(source_port),
	        .number = number,
	};
	flow->address_sum = packet_fold(word_sum(&flow->source, 8));
	flow->udp_sum = packet_fold((uint64_t)flow->address_sum + flow->source_port + number);
}

static void fill_headers(struct packet_template *template, const struct rte_ether_addr *source,
                         const struct rte_ether_addr *destination)
{
	const uint16_t ip_bytes = (uint16_t)(template->mbuf_bytes - IP_OFFSET);
	const uint16_t udp_bytes = (uint16_t)(template->mbuf_bytes - UDP_OFFSET);
	const struct rte_ether_hdr ethernet = {
	        .dst_addr = *destination, .src_addr = *source, .ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4)};
	const struct rte_ipv4_hdr ip = {
	        .version_ihl = RTE_IPV4_VHL_DEF,
	        .total_length = rte_cpu_to_be_16(ip_bytes),
	        .fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
	        .time_to_live = 64,
	        .next_proto_id = IPPROTO_UDP,
	};
	const struct rte_udp_hdr udp = {.dst_port = RTE_BE16(PACKET_DESTINATION_PORT),
	                                .dgram_len = rte_cpu_to_be_16(udp_bytes)};

	memcpy(template->image, &ethernet, sizeof(ethernet));
	memcpy(template->image + IP_OFFSET, &ip, sizeof(ip));
	memcpy(template->image + UDP_OFFSET, &udp, sizeof(udp));
	template->ip_sum = packet_fold(word_sum(&ip, sizeof(ip)));
	/* The pseudo header repeats the datagram's length and adds the protocol as a 16-bit word. */
	template->udp_sum =
	        packet_fold((uint64_t)word_sum(&udp, sizeof(udp)) + udp.dgram_len + RTE_BE16(IPPROTO_UDP));
}

static void fill_mbuf_image(struct packet_template *template)
{
	struct rte_mbuf mbuf = {
	        .data_off = RTE_PKTMBUF_HEADROOM,
	        .refcnt = 1,
	        .nb_segs = 1,
	        .port = RTE_MBUF_PORT_INVALID,
	        .pkt_len = template->mbuf_bytes,
	        .data_len = (uint16_t)template->mbuf_bytes,
	};

	memcpy(template->mbuf_image, (uint8_t *)&mbuf + offsetof(struct rte_mbuf, data_off),
	       sizeof(template->mbuf_image));
}

void packet_template_init(struct packet_template *template, unsigned int frame_bytes,
                          const struct rte_ether_addr *source, const struct rte_ether_addr *destination,
                          uint16_t mark)
{
	*template = (struct packet_template){.mbuf_bytes = frame_bytes - PACKET_FCS_BYTES};
	fill_headers(template, source, destination);
	memcpy(template->image + MARK_OFFSET, &mark, sizeof(mark));
	template->udp_sum = packet_fold((uint64_t)mark + template->udp_sum);
	fill_mbuf_image(template);
}
