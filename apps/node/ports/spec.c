/* SPDX-License-Identifier: BSD-3-Clause */
#include "spec.h"

#include <stdio.h>
#include <string.h>

#include <rte_ethdev.h>

#include "fields.h"

#define BUFFER_POOL_MIN 64 /* of net_crossover */

const char *const port_buffers_names[] = {"posted", "shared", "split", NULL};

static const struct port_spec defaults = {
        .rx_queues = 1, .tx_queues = 1, .rx_desc = 512, .tx_desc = 512, .mtu = 1500, .buffer_pool = 256};

static int parse_key(const char *hex, const char *at, uint8_t key_bytes, struct port_spec *spec,
                     struct node_error *err)
{
	if (key_bytes == 0)
		return node_fail(err, at, "this port has no RSS key");
	if (key_bytes > PORT_KEY_MAX_BYTES || strlen(hex) != 2u * key_bytes)
		return node_fail(err, at, "must have %u hexadecimal digits", 2u * key_bytes);
	if (strspn(hex, "0123456789abcdefABCDEF") != 2u * key_bytes)
		return node_fail(err, at, "must have hexadecimal digits only");
	for (unsigned int i = 0; i < key_bytes; i++)
		sscanf(hex + 2 * i, "%2hhx", &spec->key[i]);
	spec->key_bytes = key_bytes;
	return 0;
}

static int parse_rss(const json_t *rss, const char *parent, const struct rte_eth_dev_info *info,
                     struct port_spec *spec, struct node_error *err)
{
	static const char *const retas[] = {"round-robin", NULL};
	struct rss {
		const char *key;
		unsigned int reta;
	} asked = {0};
	static const struct field fields[] = {
	        {"key", FIELD_STRING, FIELD_OF(struct rss, key), .max = 2 * PORT_KEY_MAX_BYTES},
	        {"reta", FIELD_CHOICE, FIELD_OF(struct rss, reta), .names = retas},
	        {0}};
	char at[64], path[64];

	if (!rss)
		return 0;
	node_where(at, sizeof(at), parent, "rss");
	if (fields_read(rss, at, fields, &asked, err))
		return -1;
	if (!asked.key)
		return 0;
	return parse_key(asked.key, node_where(path, sizeof(path), at, "key"), info->hash_key_size, spec,
	                 err);
}

/* A buffer pool is at most as large as a queue, because its buffers go to the queue's descriptors. */
static int check_buffers(const json_t *object, const char *at, const struct port_spec *spec,
                         struct node_error *err)
{
	char path[64];

	node_where(path, sizeof(path), at, "buffer_pool");
	if (spec->buffers == PORT_BUFFERS_POSTED && json_object_get(object, "buffer_pool"))
		return node_fail(err, path,
		                 "applies only to buffers shared or split (leave it out with posted)");
	if (spec->buffers != PORT_BUFFERS_POSTED && spec->buffer_pool > spec->rx_desc)
		return node_fail(err, path, "must be at most rx_desc (%u), not %u", spec->rx_desc,
		                 spec->buffer_pool);
	return 0;
}

/* Maxima are of the device. */
static int read_fields(const json_t *object, const char *at, const struct rte_eth_dev_info *info,
                       struct port_spec *spec, struct node_error *err)
{
#define LIMITED(key, member, least, greatest)                                                                \
	{                                                                                                    \
		key, FIELD_NUMBER, FIELD_OF(struct port_spec, member), .min = (least),                       \
		        .max = RTE_MIN((uint64_t)(greatest), UINT64_C(65535))                                \
	}
	const struct field fields[] = {
	        {.key = "name"},
	        LIMITED("rx_queues", rx_queues, 1, info->max_rx_queues),
	        LIMITED("tx_queues", tx_queues, 1, info->max_tx_queues),
	        LIMITED("rx_desc", rx_desc, info->rx_desc_lim.nb_min, info->rx_desc_lim.nb_max),
	        LIMITED("tx_desc", tx_desc, info->tx_desc_lim.nb_min, info->tx_desc_lim.nb_max),
	        LIMITED("mtu", mtu, info->min_mtu, info->max_mtu),
	        {.key = "rss"},
	        {"buffers", FIELD_CHOICE, FIELD_OF(struct port_spec, buffers), .names = port_buffers_names},
	        LIMITED("buffer_pool", buffer_pool, BUFFER_POOL_MIN, UINT16_MAX),
	        {0},
	};
#undef LIMITED

	return fields_read(object, at, fields, spec, err);
}

int port_spec_read(const json_t *object, const char *at, uint16_t *port, struct port_spec *spec,
                   struct node_error *err)
{
	struct rte_eth_dev_info info;
	const char *name = NULL;
	char path[48];

	if (!json_is_object(object))
		return node_fail(err, at, "must be an object");
	if (fields_require(object, at, "name", err) ||
	    fields_string(object, at, "name", RTE_ETH_NAME_MAX_LEN - 1, &name, err))
		return -1;
	if (rte_eth_dev_get_port_by_name(name, port) < 0 || rte_eth_dev_info_get(*port, &info) < 0)
		return node_fail(err, node_where(path, sizeof(path), at, "name"), "no port has the name %s",
		                 name);
	*spec = defaults;
	if (read_fields(object, at, &info, spec, err) || check_buffers(object, at, spec, err) ||
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
