/* SPDX-License-Identifier: BSD-3-Clause */
#include "esp.h"

#include <rte_common.h>

#define IPPROTO_ESP_VALUE 50
#define SPI_FIRST         256

void esp_init(struct esp_association *association, enum esp_transform transform, uint8_t number,
              const struct rte_ether_hdr *ethernet)
{
	static const struct {
		uint8_t iv_bytes, icv_bytes, block_bytes;
	} lengths[] = {[ESP_AES_CBC_SHA1] = {16, 12, 16}, [ESP_AES_GCM] = {8, 16, 4}};

	*association = (struct esp_association){
	        .ethernet = *ethernet,
	        /* 192.0.2.1 to 192.0.2.2, for documentation (RFC 5737) */
	        .ipv4 = {.version_ihl = RTE_IPV4_VHL_DEF,
	                 .fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
	                 .time_to_live = TUNNEL_HOP_LIMIT,
	                 .next_proto_id = IPPROTO_ESP_VALUE,
	                 .src_addr = RTE_BE32(RTE_IPV4(192, 0, 2, 1)),
	                 .dst_addr = RTE_BE32(RTE_IPV4(192, 0, 2, 2))},
	        .spi = rte_cpu_to_be_32((uint32_t)SPI_FIRST + number),
	        .iv_bytes = lengths[transform].iv_bytes,
	        .icv_bytes = lengths[transform].icv_bytes,
	        .block_bytes = lengths[transform].block_bytes,
	};
}
