/* SPDX-License-Identifier: BSD-3-Clause */
#include "target.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>

#include "fields.h"
#include "ports/reta.h"

#define WHERE "gen.target_port"
#define AT    "gen.target"

static_assert(RTE_MAX_QUEUES_PER_PORT <= RSS_QUEUES_MAX, "each queue of a port must fit struct rss_inverse");
static_assert(UINT8_MAX <= RSS_KEY_BYTES_MAX, "hash_key_size is a uint8_t");

/* Hash types for which the hash of a UDP/IPv4 frame depends on the addresses only. */
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
	if (size > RSS_RETA_MAX || size % RTE_ETH_RETA_GROUP_SIZE != 0)
		return node_fail(err, WHERE, "RETA of %u entries; multiples of 64 up to %u can be inverted",
		                 size, RSS_RETA_MAX);
	const int status = port_reta_read(port, target->reta, size);

	if (status != 0)
		return node_fail(err, WHERE, "cannot read the RETA: %s", rte_strerror(-status));
	target->reta_size = size;
	return 0;
}

static int read_rss(uint16_t port, struct rss_target *target, struct node_error *err)
{
	struct rte_eth_dev_info info;
	const int status = rte_eth_dev_info_get(port, &info);

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

int gen_target_read(uint16_t port, struct gen_target *target, struct node_error *err)
{
	memset(target, 0, sizeof(*target));
	if (rte_eth_macaddr_get(port, &target->mac) != 0)
		return node_fail(err, WHERE, "cannot read the port's MAC address");
	return read_rss(port, &target->rss, err);
}

/* The bytes that the hash of a UDP/IPv4 flow reads. */
static json_t *key_json(const uint8_t key[RSS_KEY_BYTES_MIN])
{
	char hex[2 * RSS_KEY_BYTES_MIN + 1];

	for (unsigned int i = 0; i < RSS_KEY_BYTES_MIN; i++)
		snprintf(&hex[2 * (size_t)i], 3, "%02x", key[i]);
	return json_string(hex);
}

static json_t *reta_json(const struct rss_target *rss)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < rss->reta_size; i++)
		json_array_append_new(list, json_integer(rss->reta[i]));
	return list;
}

json_t *gen_target_json(uint16_t port)
{
	char mac[RTE_ETHER_ADDR_FMT_SIZE];
	struct node_error why = {0};
	struct gen_target target;

	if (gen_target_read(port, &target, &why))
		return json_pack("{s:s}", "absent", why.text);
	rte_ether_format_addr(mac, sizeof(mac), &target.mac);
	json_t *object = json_pack("{s:s,s:i}", "mac", mac, "queues", target.rss.queues);

	if (target.rss.reta_size > 0) {
		json_object_set_new(object, "hashes_ports", json_boolean(target.rss.hashes_ports));
		json_object_set_new(object, "key", key_json(target.rss.key));
		json_object_set_new(object, "reta", reta_json(&target.rss));
	}
	return object;
}

static int parse_key(const char *hex, struct rss_target *rss, struct node_error *err)
{
	const size_t digits = strlen(hex);

	if (digits % 2 != 0 || digits < 2 * RSS_KEY_BYTES_MIN)
		return node_fail(err, AT ".key", "must have an even number of digits, at least %u",
		                 2 * RSS_KEY_BYTES_MIN);
	if (strspn(hex, "0123456789abcdef") != digits)
		return node_fail(err, AT ".key", "must have lower-case hexadecimal digits only");
	for (size_t i = 0; i < digits; i += 2)
		sscanf(hex + i, "%2hhx", &rss->key[i / 2]);
	return 0;
}

static int parse_reta(const json_t *object, struct rss_target *rss, struct node_error *err)
{
	const json_t *const list = json_object_get(object, "reta");
	const size_t n = json_array_size(list);

	if (!json_is_array(list) || n < 1 || n > RSS_RETA_MAX || (n & (n - 1)) != 0)
		return node_fail(err, AT ".reta", "must be an array whose length is a power of two up to %u",
		                 RSS_RETA_MAX);
	for (size_t i = 0; i < n; i++) {
		const json_t *const entry = json_array_get(list, i);

		if (!json_is_integer(entry) || json_integer_value(entry) < 0 ||
		    json_integer_value(entry) >= rss->queues)
			return node_fail(err, AT ".reta", "entry %zu is no RX queue below %u", i,
			                 rss->queues);
		rss->reta[i] = (uint16_t)json_integer_value(entry);
	}
	rss->reta_size = (uint16_t)n;
	return 0;
}

int gen_target_parse(const json_t *object, struct gen_target *target, struct node_error *err)
{
	struct parsed {
		const char *mac, *key;
		uint16_t queues;
		bool hashes_ports;
	} parsed = {0};
	static const struct field fields[] = {
	        {"mac", FIELD_STRING, FIELD_OF(struct parsed, mac), .max = RTE_ETHER_ADDR_FMT_SIZE - 1,
	         .required = true},
	        {"queues", FIELD_NUMBER, FIELD_OF(struct parsed, queues), .min = 1, .max = RSS_QUEUES_MAX,
	         .required = true},
	        {"hashes_ports", FIELD_BOOL, FIELD_OF(struct parsed, hashes_ports)},
	        {"key", FIELD_STRING, FIELD_OF(struct parsed, key), .max = 2 * RSS_KEY_BYTES_MAX},
	        {.key = "reta"},
	        {0}};

	memset(target, 0, sizeof(*target));
	if (fields_read(object, AT, fields, &parsed, err))
		return -1;
	if (rte_ether_unformat_addr(parsed.mac, &target->mac) != 0)
		return node_fail(err, AT ".mac", "is no MAC address");
	target->rss.queues = parsed.queues;
	if (parsed.queues == 1)
		return 0;
	target->rss.hashes_ports = parsed.hashes_ports;
	return fields_require(object, AT, "key", err) || fields_require(object, AT, "reta", err) ||
	                       fields_require(object, AT, "hashes_ports", err) ||
	                       parse_key(parsed.key, &target->rss, err) ||
	                       parse_reta(object, &target->rss, err)
	               ? -1
	               : 0;
}
