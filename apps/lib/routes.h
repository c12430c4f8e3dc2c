/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The routing table that DUT and generator share without communication: route i is the /24 prefix route_prefix(i) inside
 * 10.0.0.0/8. 40503 (2^16 / golden ratio, odd) permutes the 65536 prefixes, so that any number of routes spreads over all of
 * 10.0.0.0/8, and route i is the same prefix whatever the size of the table. A destination whose route number is at or above
 * the DUT's number of routes has no route.
 */
#ifndef ROUTES_H
#define ROUTES_H

#include <stdint.h>

#define ROUTES_DEFAULT    16384 /* SoCC'19 section 3: LPM table of 16 K routes */
#define ROUTES_MAX        65536
#define ROUTE_PREFIX_BITS 24

/* Network address of route i (0..ROUTES_MAX-1), host byte order. */
static inline uint32_t route_prefix(uint32_t i)
{
	return (10u << 24) | (((i * 40503u) & 0xffffu) << 8);
}

/* Return an address that route i covers, host byte order; `host` 0..255. */
static inline uint32_t route_address(uint32_t i, uint8_t host)
{
	return route_prefix(i) | host;
}

#endif
