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

/* The words that the first keys take, by the number that they stand for. */
#define WORDS 3
static const char *const words[KEY_SIZE][WORDS] = {
        [KEY_DMA] = {[CROSSOVER_DMA_COPY] = "copy", [CROSSOVER_DMA_SWAP] = "swap"},
        [KEY_FEED] = {[CROSSOVER_FEED_WIRE] = "wire",
                      [CROSSOVER_FEED_INFINITE] = "infinite",
                      [CROSSOVER_FEED_EXTERNAL] = "external"},
        [KEY_RX] = {[CROSSOVER_RX_STANDARD] = "standard", [CROSSOVER_RX_COREC] = "corec"},
        [KEY_PORTS] = {[false] = "both", [true] = "a"},
};

#define DEFAULT_FRAME_BYTES 64
#define DEFAULT_FLOWS       256
#define MAX_FLOWS           65535

static int bad_value(const char *key, const char *value, const char *allowed)
{
	return CROSSOVER_REFUSE(-EINVAL, "device argument '%s': bad value '%s'; allowed: %s", key, value,
	                        allowed);
}

/* Returns the number, or -EINVAL. */
static int parse_number(const char *key, const char *value, unsigned long low, unsigned long high)
{
	char *end = NULL;
	unsigned long parsed;
	char allowed[48];

	errno = 0;
	parsed = strtoul(value, &end, 10);
	if (value[0] >= '0' && value[0] <= '9' && *end == '\0' && errno == 0 && parsed >= low &&
	    parsed <= high)
		return (int)parsed;
	snprintf(allowed, sizeof(allowed), "a whole number from %lu to %lu", low, high);
	return bad_value(key, value, allowed);
}

/* Returns the number that a word of the key stands for, or -EINVAL. */
static int parse_word(enum key key, const char *value)
{
	char allowed[32] = "";

	for (int i = 0; i < WORDS && words[key][i] != NULL; i++) {
		if (strcmp(value, words[key][i]) == 0)
			return i;
		snprintf(allowed + strlen(allowed), sizeof(allowed) - strlen(allowed), "%s%s",
		         i == 0 ? "" : ", ", words[key][i]);
	}
	return bad_value(key_names[key], value, allowed);
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

/* Reads into numbers[key], or a MAC address. */
static int parse_value(enum key key, const char *value, int numbers[KEYS], struct rte_ether_addr macs[2])
{
	if (key >= KEY_MAC_A)
		return parse_mac(key_names[key], value, &macs[key - KEY_MAC_A]);
	if (key < KEY_SIZE)
		numbers[key] = parse_word(key, value);
	else
		numbers[key] = parse_number(key_names[key], value, key == KEY_SIZE ? 64 : 1,
		                            key == KEY_SIZE ? CROSSOVER_MAX_MTU : MAX_FLOWS);
	return numbers[key] < 0 ? -EINVAL : 0;
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
	int numbers[KEYS] = {[KEY_SIZE] = DEFAULT_FRAME_BYTES, [KEY_FLOWS] = DEFAULT_FLOWS};

	for (unsigned int i = 0; i < pairs->count; i++) {
		const char *name = pairs->pairs[i].key, *value = pairs->pairs[i].value;
		enum key key = find_key(name);

		if (key == KEYS)
			return CROSSOVER_REFUSE(-EINVAL, "unknown device argument '%s'; allowed: %s", name,
			                        CROSSOVER_DEVARGS_HELP);
		if (given[key])
			return CROSSOVER_REFUSE(-EINVAL, "device argument '%s' is given twice; give it once",
			                        name);
		if (value == NULL || value[0] == '\0')
			return CROSSOVER_REFUSE(-EINVAL, "device argument '%s' has no value; allowed: %s",
			                        name, CROSSOVER_DEVARGS_HELP);
		if (parse_value(key, value, numbers, options->macs) != 0)
			return -EINVAL;
		given[key] = true;
	}
	options->dma = (enum crossover_dma)numbers[KEY_DMA];
	options->feed = (enum crossover_feed)numbers[KEY_FEED];
	options->rx = (enum crossover_rx_mode)numbers[KEY_RX];
	options->keeps_b = numbers[KEY_PORTS];
	options->frame_bytes = (uint16_t)numbers[KEY_SIZE];
	options->flows = (uint16_t)numbers[KEY_FLOWS];
	return 0;
}

static int check_conflicts(const struct crossover_options *options, const bool given[KEYS])
{
	const char *feed = words[KEY_FEED][options->feed];

	if (options->feed != CROSSOVER_FEED_WIRE && given[KEY_DMA])
		return CROSSOVER_REFUSE(
		        -EINVAL,
		        "device arguments 'dma' and 'feed=%s' exclude each other: %s; leave 'dma' out", feed,
		        options->feed == CROSSOVER_FEED_INFINITE ? "nothing crosses the wire"
		                                                 : "the agent moves the frames");
	if (options->feed == CROSSOVER_FEED_INFINITE && options->rx == CROSSOVER_RX_COREC)
		return CROSSOVER_REFUSE(-EINVAL,
		                        "device arguments 'rx=corec' and 'feed=infinite' exclude each other: "
		                        "the poller fills the ring itself; leave one out");
	if (given[KEY_MAC_A] && given[KEY_MAC_B] &&
	    rte_is_same_ether_addr(&options->macs[0], &options->macs[1]))
		return CROSSOVER_REFUSE(
		        -EINVAL, "device arguments 'mac_a' and 'mac_b' are the same; give each port its own");
	for (enum key key = KEY_SIZE; key <= KEY_FLOWS; key++) {
		if (options->feed != CROSSOVER_FEED_INFINITE && given[key])
			return CROSSOVER_REFUSE(
			        -EINVAL,
			        "device argument '%s' needs 'feed=infinite': with feed=%s the peer decides",
			        key_names[key], feed);
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
	if (pairs == NULL)
		return CROSSOVER_REFUSE(
		        -EINVAL, "device arguments '%s' are not of the form key=value,...; allowed: %s", args,
		        CROSSOVER_DEVARGS_HELP);
	ret = parse_pairs(pairs, options, given);
	if (ret == 0)
		ret = check_conflicts(options, given);
	rte_kvargs_free(pairs);
	return ret;
}
