/* SPDX-License-Identifier: BSD-3-Clause */
#include "gen_target.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>

#define WHERE "gen.target_port"

static_assert(RTE_MAX_QUEUES_PER_PORT <= RSS_QUEUES_MAX, "each queue of a port must fit struct rss_inverse");
static_assert(UINT8_MAX <= RSS_KEY_BYTES_MAX, "hash_key_size is a uint8_t");

/* Hash types that leave the hash of a UDP/IPv4 frame to the addresses alone. */
#define ADDRESS_TYPES (RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_OTHER)

static int read_key(uint16_t port, const struct rte_eth_dev_info *info, struct rss_target *target,
                    struct node_error *err)
{
	struct rte_eth_rss_conf conf = {.rss_key = target->key, .rss_key_len = info->hash_key_size};
	int status;

	if (info->hash_key_size < RSS_KEY_BYTES_MIN)
		return node_fail(err, WHERE, "RSS key of %u bytes; a UDP/IPv4 flow needs at least %u",
		                 info->hash_key_size, RSS_KEY_BYTES_MIN);
	status = rte_eth_dev_rss_hash_conf_get(port, &conf);
	if (status != 0)
		return node_fail(err, WHERE, "cannot read the RSS key: %s", rte_strerror(-status));
	target->hashes_ports = (conf.rss_hf & RTE_ETH_RSS_NONFRAG_IPV4_UDP) != 0;
	if (!target->hashes_ports && (conf.rss_hf & ADDRESS_TYPES) == 0)
		return node_fail(err, WHERE,
		                 "port does not hash IPv4 frames (rss_hf 0x%" PRIx64 "): all go to one queue",
		                 conf.rss_hf);
	return 0;
}

static int read_reta(uint16_t port, uint16_t size, struct rss_target *target, struct node_error *err)
{
	struct rte_eth_rss_reta_entry64 groups[RSS_RETA_MAX / RTE_ETH_RETA_GROUP_SIZE] = {0};
	int status;

	if (size > RSS_RETA_MAX || size % RTE_ETH_RETA_GROUP_SIZE != 0)
		return node_fail(err, WHERE, "RETA of %u entries; multiples of 64 up to %u can be inverted",
		                 size, RSS_RETA_MAX);
	for (unsigned int i = 0; i < size / RTE_ETH_RETA_GROUP_SIZE; i++)
		groups[i].mask = UINT64_MAX;
	status = rte_eth_dev_rss_reta_query(port, groups, size);
	if (status != 0)
		return node_fail(err, WHERE, "cannot read the RETA: %s", rte_strerror(-status));
	for (unsigned int i = 0; i < size; i++)
		target->reta[i] = groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
	target->reta_size = size;
	return 0;
}

int gen_target_read(uint16_t port, struct rss_target *target, struct node_error *err)
{
	struct rte_eth_dev_info info;
	const int status = rte_eth_dev_info_get(port, &info);

	memset(target, 0, sizeof(*target));
	if (status != 0)
		return node_fail(err, WHERE, "cannot query the port: %s", rte_strerror(-status));
	target->queues = info.nb_rx_queues;
	if (info.nb_rx_queues <= 1)
		return 0;
	if (info.reta_size == 0)
		return node_fail(err, WHERE,
		                 "driver %s has no RETA: flows cannot be placed on its %u RX queues",
		                 info.driver_name, info.nb_rx_queues);
	if (read_key(port, &info, target, err))
		return -1;
	return read_reta(port, info.reta_size, target, err);
}
