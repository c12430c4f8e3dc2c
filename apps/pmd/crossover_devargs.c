/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>
#include <rte_kvargs.h>

#include "crossover.h"

enum key { KEY_DMA, KEY_FEED, KEY_RX, KEY_PORTS, KEY_SIZE, KEY_FLOWS, KEY_MAC_A, KEY_MAC_B, KEYS };

static const char *const key_names[KEYS] = {"dma", "feed", "rx", "ports", "size", "flows", "mac_a", "mac_b"};

#define DEFAULT_FRAME_BYTES 64
#define DEFAULT_FLOWS       256
#define MAX_FLOWS           65535

static int bad_value(const char *key, const char *value, const char *allowed)
{
	CROSSOVER_LOG(ERR, "device argument '%s': bad value '%s'; allowed: %s", key, value, allowed);
	return -EINVAL;
}

static int parse_number(const char *key, const char *value, unsigned long low, unsigned long high,
                        uint16_t *number)
{
	char *end = NULL;
	unsigned long parsed;
	char allowed[48];

	errno = 0;
	parsed = strtoul(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0 || parsed < low || parsed > high) {
		snprintf(allowed, sizeof(allowed), "a whole number from %lu to %lu", low, high);
		return bad_value(key, value, allowed);
	}
	*number = (uint16_t)parsed;
	return 0;
}

static int parse_dma(const char *value, struct crossover_options *options)
{
	if (strcmp(value, "copy") == 0)
		options->dma = CROSSOVER_DMA_COPY;
	else if (strcmp(value, "swap") == 0)
		options->dma = CROSSOVER_DMA_SWAP;
	else
		return bad_value("dma", value, "copy, swap");
	return 0;
}

static int parse_feed(const char *value, struct crossover_options *options)
{
	if (strcmp(value, "wire") == 0)
		options->feed = CROSSOVER_FEED_WIRE;
	else if (strcmp(value, "infinite") == 0)
		options->feed = CROSSOVER_FEED_INFINITE;
	else if (strcmp(value, "external") == 0)
		options->feed = CROSSOVER_FEED_EXTERNAL;
	else
		return bad_value("feed", value, "wire, infinite, external");
	return 0;
}

static int parse_rx(const char *value, struct crossover_options *options)
{
	if (strcmp(value, "standard") == 0)
		options->rx = CROSSOVER_RX_STANDARD;
	else if (strcmp(value, "corec") == 0)
		options->rx = CROSSOVER_RX_COREC;
	else
		return bad_value("rx", value, "standard, corec");
	return 0;
}

static int parse_ports(const char *value, struct crossover_options *options)
{
	options->keeps_b = strcmp(value, "a") == 0;
	return options->keeps_b || strcmp(value, "both") == 0 ? 0 : bad_value("ports", value, "both, a");
}

/* Accepts six pairs of hexadecimal digits with colons between them, and nothing else; DPDK's own parser accepts more forms. */
static int parse_mac(const char *key, const char *value, struct rte_ether_addr *mac)
{
	static const char *const form =
	        "xx:xx:xx:xx:xx:xx in hexadecimal digits, a unicast address other than 0";
	bool formed = strlen(value) == RTE_ETHER_ADDR_FMT_SIZE - 1;

	for (unsigned int i = 0; formed && value[i] != '\0'; i++)
		formed = i % 3 == 2 ? value[i] == ':' : isxdigit((unsigned char)value[i]) != 0;
	if (!formed || rte_ether_unformat_addr(value, mac) != 0 || !rte_is_valid_assigned_ether_addr(mac))
		return bad_value(key, value, form);
	return 0;
}

static int parse_pair(enum key key, const char *value, struct crossover_options *options)
{
	switch (key) {
	case KEY_DMA:
		return parse_dma(value, options);
	case KEY_FEED:
		return parse_feed(value, options);
	case KEY_RX:
		return parse_rx(value, options);
	case KEY_PORTS:
		return parse_ports(value, options);
	case KEY_SIZE:
		return parse_number(key_names[key], value, 64, CROSSOVER_MAX_MTU, &options->frame_bytes);
	case KEY_FLOWS:
		return parse_number(key_names[key], value, 1, MAX_FLOWS, &options->flows);
	default:
		return parse_mac(key_names[key], value, &options->macs[key - KEY_MAC_A]);
	}
}

static enum key find_key(const char *name)
{
	for (enum key key = 0; key < KEYS; key++)
		if (strcmp(key_names[key], name) == 0)
			return key;
	return KEYS;
}

static int parse_pairs(const struct rte_kvargs *pairs, struct crossover_options *options, bool given[KEYS])
{
	for (unsigned int i = 0; i < pairs->count; i++) {
		const char *name = pairs->pairs[i].key, *value = pairs->pairs[i].value;
		enum key key = find_key(name);

		if (key == KEYS) {
			CROSSOVER_LOG(ERR, "unknown device argument '%s'; allowed: %s", name,
			              CROSSOVER_DEVARGS_HELP);
			return -EINVAL;
		}
		if (given[key]) {
			CROSSOVER_LOG(ERR, "device argument '%s' is given twice; give it once", name);
			return -EINVAL;
		}
		if (value == NULL || value[0] == '\0') {
			CROSSOVER_LOG(ERR, "device argument '%s' has no value; allowed: %s", name,
			              CROSSOVER_DEVARGS_HELP);
			return -EINVAL;
		}
		if (parse_pair(key, value, options) != 0)
			return -EINVAL;
		given[key] = true;
	}
	return 0;
}

static int check_conflicts(const struct crossover_options *options, const bool given[KEYS])
{
	if (options->feed == CROSSOVER_FEED_INFINITE && given[KEY_DMA]) {
		CROSSOVER_LOG(ERR, "device arguments 'dma' and 'feed=infinite' exclude each other: "
		                   "nothing crosses the wire; leave 'dma' out");
		return -EINVAL;
	}
	if (options->feed == CROSSOVER_FEED_EXTERNAL && given[KEY_DMA]) {
		CROSSOVER_LOG(ERR, "device arguments 'dma' and 'feed=external' exclude each other: "
		                   "the agent moves the frames; leave 'dma' out");
		return -EINVAL;
	}
	if (options->feed == CROSSOVER_FEED_INFINITE && options->rx == CROSSOVER_RX_COREC) {
		CROSSOVER_LOG(ERR, "device arguments 'rx=corec' and 'feed=infinite' exclude each other: "
		                   "the poller fills the ring itself; leave one out");
		return -EINVAL;
	}
	if (given[KEY_MAC_A] && given[KEY_MAC_B] &&
	    rte_is_same_ether_addr(&options->macs[0], &options->macs[1])) {
		CROSSOVER_LOG(ERR,
		              "device arguments 'mac_a' and 'mac_b' are the same; give each port its own");
		return -EINVAL;
	}
	for (enum key key = KEY_SIZE; key <= KEY_FLOWS; key++) {
		if (options->feed != CROSSOVER_FEED_INFINITE && given[key]) {
			CROSSOVER_LOG(
			        ERR,
			        "device argument '%s' needs 'feed=infinite': with feed=%s the peer decides",
			        key_names[key], options->feed == CROSSOVER_FEED_WIRE ? "wire" : "external");
			return -EINVAL;
		}
	}
	return 0;
}

int crossover_devargs_parse(const char *args, struct crossover_options *options)
{
	bool given[KEYS] = {false};
	struct rte_kvargs *pairs;
	int ret;

	*options = (struct crossover_options){.frame_bytes = DEFAULT_FRAME_BYTES, .flows = DEFAULT_FLOWS};
	if (args == NULL || args[0] == '\0')
		return 0;
	pairs = rte_kvargs_parse(args, NULL);
	if (pairs == NULL) {
		CROSSOVER_LOG(ERR, "device arguments '%s' are not of the form key=value,...; allowed: %s",
		              args, CROSSOVER_DEVARGS_HELP);
		return -EINVAL;
	}
	ret = parse_pairs(pairs, options, given);
	if (ret == 0)
		ret = check_conflicts(options, given);
	rte_kvargs_free(pairs);
	return ret;
}
