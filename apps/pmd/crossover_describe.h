/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a NIC tells of a frame that it received, beside its hash: the packet type and whether its checksums are good.
 *
 * The NIC side, that is the sender's core, looks at the headers and writes what it found into the write-back word; the driver side
 * only translates bits and never touches the frame. Both happen only on a port that wants it: it was configured with
 * RTE_ETH_RX_OFFLOAD_*_CKSUM, or the program asked for types. Otherwise neither side spends anything on it.
 *
 * A program asks for types with rte_eth_dev_set_ptypes(), or with rte_eth_dev_get_supported_ptypes(): by the API's rules a type
 * that was announced must be recognised, and programs such as l3fwd ask so, after the start, and rely on the answer from
 * then on. What rte_eth_dev_set_ptypes() said holds against later questions.
 *
 * Checksums are not computed: a frame on this wire is intact. What is said is therefore what the headers say, 'good' for an
 * IPv4 header, and for TCP and UDP that are no fragments.
 */
#ifndef CROSSOVER_DESCRIBE_H
#define CROSSOVER_DESCRIBE_H

#include "crossover_compat.h"
#include "crossover_port.h"

/* ethdev's dev_supported_ptypes_get and dev_ptypes_set. */
CROSSOVER_PTYPES_GET(crossover_ptypes_get);
int crossover_ptypes_set(struct rte_eth_dev *dev, uint32_t mask);

/*
 * Gives the port its receive burst function, of a running port as well. A secondary process always gets the one that
 * describes, because the primary process may configure the port anew.
 */
void crossover_describe_select(struct rte_eth_dev *dev);

/* Bits of the write-back word for a frame of this type (RTE_PTYPE_*, layers 2 to 4). */
uint64_t crossover_describe_type(const struct crossover_port *port, uint32_t type);

/* The same for a frame. */
uint64_t crossover_describe(const struct crossover_port *port, const struct rte_mbuf *m);

#endif
