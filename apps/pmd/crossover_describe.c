/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_net.h>

#include "crossover_classify.h"
#include "crossover_control.h"
#include "crossover_describe.h"
#include "crossover_rx.h"

#define TYPE_LAYERS (RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK)

_Static_assert(TYPE_LAYERS < 1u << (CROSSOVER_WB_HASH_SHIFT - CROSSOVER_WB_TYPE_SHIFT),
               "a type fits its bits of the write-back word");

void crossover_describe_select(struct rte_eth_dev *dev)
{
	const struct crossover_port *port = dev->data->dev_private;

	dev->rx_pkt_burst =
	        crossover_rx_burst(port, port->described || rte_eal_process_type() != RTE_PROC_PRIMARY);
	if (dev->data
	            ->dev_started) /* ethdev took its copy at the start; pollers find either function, and both are right */
		rte_eth_fp_ops[dev->data->port_id].rx_pkt_burst = dev->rx_pkt_burst;
}

/* The control lock is held. */
static void want_types(struct rte_eth_dev *dev, uint32_t mask)
{
	struct crossover_port *port = dev->data->dev_private;

	__atomic_store_n(&port->types, mask & TYPE_LAYERS, __ATOMIC_RELAXED);
	crossover_gate_update(port, port->gate != CROSSOVER_GATE_DOWN);
	crossover_describe_select(dev);
}

/* Those that rte_net_get_ptype() finds in layers 2 to 4. */
CROSSOVER_PTYPES_GET(crossover_ptypes_get)
{
	static const uint32_t types[] = {
	        RTE_PTYPE_L2_ETHER,    RTE_PTYPE_L2_ETHER_VLAN, RTE_PTYPE_L2_ETHER_QINQ, RTE_PTYPE_L3_IPV4,
	        RTE_PTYPE_L3_IPV4_EXT, RTE_PTYPE_L3_IPV6,       RTE_PTYPE_L3_IPV6_EXT,   RTE_PTYPE_L4_TCP,
	        RTE_PTYPE_L4_UDP,      RTE_PTYPE_L4_FRAG,       RTE_PTYPE_L4_SCTP,       RTE_PTYPE_UNKNOWN,
	};
	struct crossover_port *port = dev->data->dev_private;

	if (crossover_control_lock(port->pair) != 0)
		return NULL;
	if (!port->types_set)
		want_types(dev, TYPE_LAYERS);
	crossover_control_unlock(port->pair);
	CROSSOVER_PTYPES_COUNT(types, count);
	return types;
}

int crossover_ptypes_set(struct rte_eth_dev *dev, uint32_t mask)
{
	struct crossover_port *port = dev->data->dev_private;
	int ret = crossover_control_lock(port->pair);

	if (ret != 0)
		return ret;
	port->types_set = 1;
	want_types(dev, mask);
	crossover_control_unlock(port->pair);
	return 0;
}

/* Of a fragment nothing can be said: the checksum covers the others, too; nor of what follows a header that is no IP. */
static bool l4_checked(const struct crossover_port *port, uint32_t type)
{
	if ((type & RTE_PTYPE_L3_MASK) == 0)
		return false;
	switch (type & RTE_PTYPE_L4_MASK) {
	case RTE_PTYPE_L4_TCP:
		return port->checks & RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
	case RTE_PTYPE_L4_UDP:
		return port->checks & RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
	default:
		return false;
	}
}

uint64_t crossover_describe_type(const struct crossover_port *port, uint32_t type)
{
	return (uint64_t)type << CROSSOVER_WB_TYPE_SHIFT |
	       (l4_checked(port, type) ? CROSSOVER_WB_L4_GOOD : 0);
}

/*
 * Headers as nearly all frames have them; 0: rte_net_get_ptype() must look. A core that forwards, and plays the NIC of both ports,
 * does 1.2 to 1.3 times as much with this.
 */
static uint32_t common_type(const struct rte_mbuf *m)
{
	const struct rte_ether_hdr *ether = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(ether + 1);
	const uint32_t plain = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4;

	if (m->data_len < sizeof(*ether) + sizeof(*ip) + sizeof(struct rte_tcp_hdr) ||
	    ether->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) ||
	    ip->version_ihl != RTE_IPV4_VHL_DEF ||
	    (ip->fragment_offset & rte_cpu_to_be_16(RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK)) != 0)
		return 0;
	return ip->next_proto_id == IPPROTO_UDP   ? plain | RTE_PTYPE_L4_UDP
	       : ip->next_proto_id == IPPROTO_TCP ? plain | RTE_PTYPE_L4_TCP
	                                          : 0;
}

uint64_t crossover_describe(const struct crossover_port *port, const struct rte_mbuf *m)
{
	uint32_t type = common_type(m);

	return crossover_describe_type(port, type != 0 ? type : rte_net_get_ptype(m, NULL, TYPE_LAYERS));
}
