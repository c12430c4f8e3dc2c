/* SPDX-License-Identifier: BSD-3-Clause */
#include "tunnel.h"

void tunnel_init(struct tunnel *tunnel, bool over_ipv6, const struct rte_ether_hdr *ethernet)
{
	/* 2001:db8::1 to 2001:db8::2 and 192.0.2.1 to 192.0.2.2: prefixes for documentation (RFC 3849, RFC 5737) */
	static const uint8_t ipv6_gre[IPV6_BYTES + GRE_BYTES] = {
	        [6] = IPPROTO_GRE_VALUE,
	        [7] = TUNNEL_HOP_LIMIT,
	        [8] = 0x20,
	        [9] = 0x01,
	        [10] = 0x0d,
	        [11] = 0xb8,
	        [23] = 1,
	        [24] = 0x20,
	        [25] = 0x01,
	        [26] = 0x0d,
	        [27] = 0xb8,
	        [39] = 2,
	        [42] = RTE_ETHER_TYPE_IPV4 >> 8,
	        [43] = RTE_ETHER_TYPE_IPV4 & 0xff,
	};

	*tunnel = (struct tunnel){
	        .ethernet = *ethernet,
	        /*
	 * don't fragment may be set whatever the inner packet says (RFC 2003 section 3.1), and then no identification is needed
	 */
	        .ipv4 = {.version_ihl = RTE_IPV4_VHL_DEF,
	                 .fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
	                 .time_to_live = TUNNEL_HOP_LIMIT,
	                 .next_proto_id = IPPROTO_IPIP_VALUE,
	                 .src_addr = RTE_BE32(RTE_IPV4(192u, 0, 2, 1)),
	                 .dst_addr = RTE_BE32(RTE_IPV4(192u, 0, 2, 2))},
	        .over_ipv6 = over_ipv6,
	};
	memcpy(tunnel->ipv6_gre, ipv6_gre, sizeof(ipv6_gre));
}
