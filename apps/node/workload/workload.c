/* SPDX-License-Identifier: BSD-3-Clause */
#include "workload.h"

#include <stddef.h>
#include <rte_ethdev.h>

#define POINTER(symbol, ...)    &workload_##symbol,
#define NAME(symbol, name, ...) name,
#define KEYS(symbol, name, ...) (const char *const[]){__VA_ARGS__},

const struct workload *const workloads[] = {WORKLOADS(POINTER) NULL};
const char *const workload_names[] = {WORKLOADS(NAME) NULL};
const char *const *const workload_keys[] = {WORKLOADS(KEYS)};

int workload_next_hop(uint16_t tx_port, uint16_t ether_type, struct rte_ether_hdr *header,
                      struct node_error *err)
{
	*header = (struct rte_ether_hdr){
	        .dst_addr = {{0x02, 0, 0, 0, 0, 1}}, /* a locally administered address */
	        .ether_type = rte_cpu_to_be_16(ether_type),
	};
	if (rte_eth_macaddr_get(tx_port, &header->src_addr) < 0)
		return node_fail(err, "dut.tx_port", "its MAC address cannot be read");
	return 0;
}
