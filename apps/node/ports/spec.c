/* SPDX-License-Identifier: BSD-3-Clause */
#include "spec.h"

#include <string.h>

#include <rte_ethdev.h>

#include "fields.h"

#define BUFFER_POOL_MIN 64 /* of net_crossover */

const char *const port_buffers_names[] = {"posted", "shared", "split", NULL};

static const struct port_spec defaults = {
        .rx_queues = 1, .tx_queues = 1, .rx_desc = 512, .tx_desc = 512, .mtu = 1500, .buffer_pool = 256};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static int parse_key(const char *hex, const char *at, uint8_t key_bytes, struct port_spec *spec,
                     struct node_error *err)
{
	if (key_bytes == 0)
		return node_fail(err, at, "this port has no RSS key");
	if (key_bytes > PORT_KEY_MAX_BYTES || strlen(hex) != 2u * key_bytes)
		return node_fail(err, at, "must have %u hexadecimal digits", 2u * key_bytes);
	for (unsigned int i = 0; i < key_bytes; i++) {
		const int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return node_fail(err, at, "must have hexadecimal digits only");
		spec->key[i] = (uint8_t)(high << 4 | low);
	}
	spec->key_bytes = key_bytes;
	return 0;
}

static int parse_rss(const json_t *rss, const char *parent, const struct rte_eth_dev_info *info,
                     struct port_spec *spec, struct node_error *err)
{
	static const char *const keys[] = {"key", "reta", NULL};
	static const char *const retas[] = {"round-robin", NULL};
	char at[64], path[64];
	const char *key = NULL;
	unsigned int reta = 0;

	if (!rss)
		return 0;
	node_where(at, sizeof(at), parent, "rss");
	if (fields_only(rss, at, keys, err) || fields_choice(rss, at, "reta", retas, &reta, err) ||
	    fields_string(rss, at, "key", 2 * PORT_KEY_MAX_BYTES, &key, err))
		return -1;
	if (!key)
		return 0;
	return parse_key(key, node_where(path, sizeof(path), at, "key"), info->hash_key_size, spec, err);
}

struct number_field {
	const char *key;
	uint64_t min;
	uint64_t max;
	uint16_t *value;
};

static int parse_numbers(const json_t *object, const char *at, const struct rte_eth_dev_info *info,
                         struct port_spec *spec, struct node_error *err)
{
	const struct number_field fields[] = {
	        {"rx_queues", 1, info->max_rx_queues, &spec->rx_queues},
	        {"tx_queues", 1, info->max_tx_queues, &spec->tx_queues},
	        {"rx_desc", info->rx_desc_lim.nb_min, info->rx_desc_lim.nb_max, &spec->rx_desc},
	        {"tx_desc", info->tx_desc_lim.nb_min, info->tx_desc_lim.nb_max, &spec->tx_desc},
	        {"mtu", info->min_mtu, info->max_mtu, &spec->mtu},
	};

	for (unsigned int i = 0; i < RTE_DIM(fields); i++) {
		uint64_t value = *fields[i].value;

		if (fields_u64(object, at, fields[i].key, fields[i].min,
		               RTE_MIN(fields[i].max, UINT64_C(65535)), &value, err))
			return -1;
		*fields[i].value = (uint16_t)value;
	}
	return 0;
}

/* A buffer pool is at most as large as a queue, because its buffers go to the queue's descriptors. */
static int parse_buffers(const json_t *object, const char *at, struct port_spec *spec, struct node_error *err)
{
	uint64_t buffer_pool = spec->buffer_pool;
	char path[64];

	if (fields_choice(object, at, "buffers", port_buffers_names, &spec->buffers, err))
		return -1;
	if (spec->buffers == PORT_BUFFERS_POSTED && json_object_get(object, "buffer_pool"))
		return node_fail(err, node_where(path, sizeof(path), at, "buffer_pool"),
		                 "applies only to buffers shared or split (leave it out with posted)");
	if (fields_u64(object, at, "buffer_pool", BUFFER_POOL_MIN, spec->rx_desc, &buffer_pool, err))
		return -1;
	if (spec->buffers != PORT_BUFFERS_POSTED && buffer_pool > spec->rx_desc)
		return node_fail(err, node_where(path, sizeof(path), at, "buffer_pool"),
		                 "must be at most rx_desc (%u), not %u", spec->rx_desc,
		                 (unsigned int)buffer_pool);
	spec->buffer_pool = (uint16_t)buffer_pool;
	return 0;
}

int port_spec_read(const json_t *object, const char *at, uint16_t *port, struct port_spec *spec,
                   struct node_error *err)
{
	static const char *const keys[] = {"name", "rx_queues", "tx_queues", "rx_desc",     "tx_desc",
	                                   "mtu",  "rss",       "buffers",   "buffer_pool", NULL};
	struct rte_eth_dev_info info;
	const char *name = NULL;
	char path[48];

	if (fields_only(object, at, keys, err) || fields_require(object, at, "name", err) ||
	    fields_string(object, at, "name", RTE_ETH_NAME_MAX_LEN - 1, &name, err))
		return -1;
	if (rte_eth_dev_get_port_by_name(name, port) < 0 || rte_eth_dev_info_get(*port, &info) < 0)
		return node_fail(err, node_where(path, sizeof(path), at, "name"), "no port has the name %s",
		                 name);
	*spec = defaults;
	if (parse_numbers(object, at, &info, spec, err) || parse_buffers(object, at, spec, err) ||
	    parse_rss(json_object_get(object, "rss"), at, &info, spec, err))
		return -1;
	return 0;
}

bool port_spec_same(const struct port_spec *a, const struct port_spec *b)
{
	return a->rx_queues == b->rx_queues && a->tx_queues == b->tx_queues && a->rx_desc == b->rx_desc &&
	       a->tx_desc == b->tx_desc && a->mtu == b->mtu && a->corec == b->corec &&
	       a->buffers == b->buffers && a->buffer_pool == b->buffer_pool && a->rss_hash == b->rss_hash &&
	       a->timesync == b->timesync && a->key_bytes == b->key_bytes &&
	       memcmp(a->key, b->key, a->key_bytes) == 0;
}
