/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes that forwarders make to an IPv4 header. */
#ifndef IPV4_H
#define IPV4_H

#include <rte_byteorder.h>
#include <rte_common.h>
#include <rte_ip.h>

/* RFC 1624, equation 3, for TTL - 1: the checksum grows by 0x0100 in one's complement, in network byte order. */
static __rte_always_inline void ipv4_decrement_ttl(struct rte_ipv4_hdr *ip)
{
	const uint32_t sum = (uint32_t)ip->hdr_checksum + rte_cpu_to_be_16(0x0100);

	ip->hdr_checksum = (uint16_t)(sum + (sum >= 0xffff));
	ip->time_to_live--;
}

#endif
