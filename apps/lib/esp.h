/* SPDX-License-Identifier: BSD-3-Clause */
/* clang-format off */
/*
 * The sending end of a security association (SA) of ESP in tunnel mode over IPv4 (RFC 4303), without the cryptography.
 *
 *	Ethernet  IPv4  SPI, sequence number  IV  | IPv4 packet  padding  pad length, next header |  ICV
 *	      14    20                     8 8,16 |                                             2 | 12,16
 *	                                          |                 encrypted                     |
 */
/* clang-format on */
#ifndef ESP_H
#define ESP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_esp.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>

#include "tunnel.h"

/* AES-128-CBC with HMAC-SHA1-96 (RFC 3602, RFC 2404); AES-128-GCM with an ICV of 16 bytes (RFC 4106). */
enum esp_transform { ESP_AES_CBC_SHA1, ESP_AES_GCM };

#define ESP_OFFSET        (RTE_ETHER_HDR_LEN + sizeof(struct rte_ipv4_hdr)) /* offset of the SPI in the frame */
#define ESP_IV_OFFSET     (ESP_OFFSET + sizeof(struct rte_esp_hdr))
#define ESP_TRAILER_BYTES 2 /* pad length, next header */
#define ESP_MORE_BYTES_MAX                                                                                   \
	80 /* outer header, ESP header, IV, padding, trailer and ICV together, rounded up */

struct esp_association {
	struct rte_ether_hdr ethernet; /* outer */
	struct rte_ipv4_hdr ipv4;      /* type of service, length and checksum come from the packet */
	rte_be32_t spi;
	uint64_t packets; /* sent so far; the low half is the sequence number */
	uint8_t iv_bytes;
	uint8_t icv_bytes;
	uint8_t block_bytes; /* the encrypted length is a multiple of this */
};

/* Make SA number `number` (0..255) of this host: its SPI is 256 + number (RFC 4303: 1 to 255 are reserved). */
void esp_init(struct esp_association *association, enum esp_transform transform, uint8_t number,
              const struct rte_ether_hdr *ethernet);

/* Write outer headers up to the IV, which contains the packet count and so never repeats in an SA. */
static inline void esp_put_headers(const struct esp_association *a, uint8_t *head, uint8_t type_of_service,
                                   uint16_t ipv4_bytes)
{
	const struct rte_esp_hdr esp = {.spi = a->spi, .seq = rte_cpu_to_be_32((uint32_t)a->packets)};
	const uint64_t count = rte_cpu_to_be_64(a->packets);
	struct rte_ipv4_hdr ipv4 = a->ipv4;

	ipv4.type_of_service = type_of_service;
	ipv4.total_length = rte_cpu_to_be_16(ipv4_bytes);
	ipv4.hdr_checksum = rte_ipv4_cksum(&ipv4);
	memcpy(head, &a->ethernet, sizeof(a->ethernet));
	memcpy(head + RTE_ETHER_HDR_LEN, &ipv4, sizeof(ipv4));
	memcpy(head + ESP_OFFSET, &esp, sizeof(esp));
	memset(head + ESP_IV_OFFSET, 0, a->iv_bytes - sizeof(count));
	memcpy(head + ESP_IV_OFFSET + a->iv_bytes - sizeof(count), &count, sizeof(count));
}

/* Write padding 1, 2, 3 ... (RFC 4303 section 2.4), pad length, next header; `tail` follows the inner packet. */
static inline void esp_put_trailer(uint8_t *tail, uint8_t padding)
{
	for (uint8_t i = 0; i < padding; i++)
		tail[i] = i + 1;
	tail[padding] = padding;
	tail[padding + 1] = IPPROTO_IPIP_VALUE;
}

/*
 * Put `packet` into the tunnel, all but encrypted and with room for the ICV. Returns the number of bytes to be
 * encrypted, which begin after the IV. 0: drop the packet, because tunnel_inner() refuses it, it has several segments,
 * or there is no room.
 */
static inline uint32_t esp_enter(struct esp_association *a, struct rte_mbuf *packet)
{
	const struct rte_ipv4_hdr *ip =
	        likely(packet->nb_segs == 1) ? tunnel_inner(packet, ESP_MORE_BYTES_MAX) : NULL;

	if (unlikely(!ip))
		return 0;
	const uint32_t inner = rte_be_to_cpu_16(ip->total_length);
	const uint32_t encrypted = (inner + ESP_TRAILER_BYTES + a->block_bytes - 1u) & ~(a->block_bytes - 1u);
	const uint32_t in_front = sizeof(a->ipv4) + sizeof(struct rte_esp_hdr) + a->iv_bytes;
	const uint8_t type_of_service = ip->type_of_service;
	uint8_t *tail = (uint8_t *)rte_pktmbuf_append(packet, (uint16_t)(encrypted - inner + a->icv_bytes));
	uint8_t *head = tail ? (uint8_t *)rte_pktmbuf_prepend(packet, (uint16_t)in_front) : NULL;

	if (unlikely(!head))
		return 0;
	a->packets++;
	esp_put_headers(a, head, type_of_service, (uint16_t)(in_front + encrypted + a->icv_bytes));
	esp_put_trailer(tail, (uint8_t)(encrypted - inner - ESP_TRAILER_BYTES));
	return encrypted;
}

#endif
