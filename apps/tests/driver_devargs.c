/* SPDX-License-Identifier: BSD-3-Clause */
/* Device arguments: what is wrong fails the probe, and the log names the key and what is allowed. */
#include <string.h>

#include "driver_suite.h"

static const struct {
	const char *devargs, *names, *allowed;
} refused[] = {
        {"speed=100", "'speed'", "dma=copy|swap"},
        {"DMA=copy", "'DMA'", "dma=copy|swap"},
        {"dma=copy,dma=copy", "'dma' is given twice", "once"},
        {"feed=infinite,flows=2,flows=3", "'flows' is given twice", "once"},
        {"dma=zero", "'dma': bad value 'zero'", "copy, swap"},
        {"dma=", "'dma'", "copy"},
        {"dma", "'dma' has no value", "copy|swap"},
        {"feed=none", "'feed': bad value 'none'", "wire, infinite, external"},
        {"rx=shared", "'rx': bad value 'shared'", "standard, corec"},
        {"feed=infinite,rx=corec", "'rx=corec' and 'feed=infinite' exclude each other", "leave one out"},
        {"feed=infinite,size=63", "'size': bad value '63'", "from 64 to 9000"},
        {"feed=infinite,size=9001", "'size': bad value '9001'", "from 64 to 9000"},
        {"feed=infinite,size=64k", "'size': bad value '64k'", "from 64 to 9000"},
        {"feed=infinite,size=-64", "'size': bad value '-64'", "from 64 to 9000"},
        {"feed=infinite,flows=0", "'flows': bad value '0'", "from 1 to 65535"},
        {"feed=infinite,flows=18446744073709551617", "'flows'", "from 1 to 65535"},
        {"feed=infinite,dma=swap", "'dma' and 'feed=infinite' exclude each other", "leave 'dma' out"},
        {"feed=infinite,dma=copy", "'dma' and 'feed=infinite' exclude each other", "leave 'dma' out"},
        {"mac_a=02:00:00:00:00", "'mac_a': bad value '02:00:00:00:00'", "xx:xx:xx:xx:xx:xx"},
        {"mac_a=02:00:00:00:00:0g", "'mac_a': bad value", "xx:xx:xx:xx:xx:xx"},
        {"mac_a=02:00:00:00:00:0a:0b", "'mac_a': bad value", "xx:xx:xx:xx:xx:xx"},
        {"mac_a=0200:0000:000a", "'mac_a': bad value", "xx:xx:xx:xx:xx:xx"},
        {"ports=b", "'ports': bad value", "both, a"},
        {"mac_b=02-00-00-00-00-0b", "'mac_b': bad value", "xx:xx:xx:xx:xx:xx"},
        {"mac_b=2:0:0:0:0:b", "'mac_b': bad value", "xx:xx:xx:xx:xx:xx"},
        {"mac_b=01:00:00:00:00:0b", "'mac_b': bad value", "unicast"},
        {"mac_b=00:00:00:00:00:00", "'mac_b': bad value", "other than 0"},
        {"mac_b=", "'mac_b' has no value", "mac_b=<xx:xx:xx:xx:xx:xx>"},
        {"mac_a=02:00:00:00:00:0a,mac_a=02:00:00:00:00:0b", "'mac_a' is given twice", "once"},
        {"mac_a=02:00:00:00:00:0a,mac_b=02:00:00:00:00:0A", "'mac_a' and 'mac_b' are the same", "its own"},
        {"size=128", "'size' needs 'feed=infinite'", "feed=wire"},
        {"feed=wire,flows=7", "'flows' needs 'feed=infinite'", "feed=wire"},
        {"feed=external,size=128", "'size' needs 'feed=infinite'", "feed=external"},
        {"feed=external,dma=copy", "'dma' and 'feed=external' exclude each other", "leave 'dma' out"},
};

static void refuses_by_name(void)
{
	for (unsigned int i = 0; i < RTE_DIM(refused); i++) {
		const char *text;
		uint16_t port;
		int ret;

		log_begin();
		ret = pair_make(refused[i].devargs);
		text = log_end();
		CHECK(ret < 0, "'%s' was accepted", refused[i].devargs);
		CHECK(strstr(text, refused[i].names) != NULL, "'%s': log says: %s", refused[i].devargs, text);
		CHECK(strstr(text, refused[i].allowed) != NULL, "'%s': log says: %s", refused[i].devargs,
		      text);
		CHECK(rte_eth_dev_get_port_by_name(PAIR_NAME "_a", &port) != 0, "'%s' left a port",
		      refused[i].devargs);
	}
}

static void takes_all_documented(void)
{
	static const char *const accepted[] = {
	        "",
	        "dma=copy",
	        "dma=swap",
	        "feed=wire",
	        "feed=wire,dma=swap",
	        "rx=standard",
	        "rx=corec,dma=swap",
	        "ports=both",
	        "ports=a,dma=swap",
	        "feed=infinite",
	        "feed=infinite,size=64,flows=1",
	        "feed=external",
	        "feed=external,rx=corec",
	        "size=9000,flows=65535,feed=infinite",
	        "mac_a=02:00:00:00:00:0a,dma=swap,mac_b=02:00:00:00:00:0B",
	};

	for (unsigned int i = 0; i < RTE_DIM(accepted); i++) {
		CHECK(pair_make(accepted[i]) == 0, "'%s' was refused", accepted[i]);
		CHECK(port_a != port_b, "one port for both ends");
	}
}

static void expect_mac(uint16_t port, const char *wanted)
{
	char text[RTE_ETHER_ADDR_FMT_SIZE];
	struct rte_ether_addr mac;

	CHECK_EQUAL(rte_eth_macaddr_get(port, &mac), 0);
	rte_ether_format_addr(text, sizeof(text), &mac);
	CHECK(strcmp(text, wanted) == 0, "%s instead of %s", text, wanted);
}

/* As Open vSwitch looks for a port: the name of the device does not tell which of the two is meant. */
static uint16_t find_by_mac(const char *devargs)
{
	struct rte_dev_iterator iterator;
	uint16_t port, found = RTE_MAX_ETHPORTS;

	RTE_ETH_FOREACH_MATCHING_DEV(port, devargs, &iterator)
	{
		found = port;
		rte_eth_iterator_cleanup(&iterator);
		break;
	}
	return found;
}

static void ports_have_the_macs_asked_for(void)
{
	struct rte_ether_addr mac;

	CHECK_EQUAL(pair_make("mac_a=02:00:00:00:00:0a,mac_b=02:00:00:00:00:0B"), 0);
	expect_mac(port_a, "02:00:00:00:00:0A");
	expect_mac(port_b, "02:00:00:00:00:0B");
	CHECK_EQUAL(find_by_mac("class=eth,mac=02:00:00:00:00:0a"), port_a);
	CHECK_EQUAL(find_by_mac("class=eth,mac=02:00:00:00:00:0b"), port_b);
	CHECK_EQUAL(find_by_mac("class=eth,mac=02:00:00:00:00:0c"), RTE_MAX_ETHPORTS);
	CHECK_EQUAL(pair_make("mac_b=02:00:00:00:00:0b"), 0);
	expect_mac(port_b, "02:00:00:00:00:0B");
	CHECK_EQUAL(rte_eth_macaddr_get(port_a, &mac), 0);
	CHECK(rte_is_local_admin_ether_addr(&mac) && rte_is_valid_assigned_ether_addr(&mac), "no random one");
}

/* The filter knows the address that was given. */
static void frames_find_the_mac_asked_for(void)
{
	struct rte_mbuf *m = frame_make(pool, FRAME_BYTES, 0); /* to 02:02:02:02:02:02 */

	CHECK_EQUAL(port_up(port_a, NULL), 0);
	CHECK_EQUAL(port_up(port_b, NULL), 0);
	CHECK(send_one(port_a, 0, m), "not sent");
	CHECK_EQUAL(receive_all(port_b, 0), 1);
	CHECK(send_one(port_b, 0, frame_make(pool, FRAME_BYTES, 0)), "not sent");
	CHECK_EQUAL(receive_all(port_a, 0), 0);
	CHECK_EQUAL(xstat_of(port_a, "rx_filtered_packets"), 1);
}

static bool is_iterated(uint16_t wanted)
{
	uint16_t port;

	RTE_ETH_FOREACH_DEV (port)
		if (port == wanted)
			return true;
	return false;
}

static void port_b_is_kept_from_the_program(void)
{
	CHECK_EQUAL(pair_make("ports=both"), 0);
	CHECK(is_iterated(port_a) && is_iterated(port_b), "a port is missing");
	CHECK_EQUAL(pair_make("ports=a"), 0);
	CHECK(is_iterated(port_a), "port a is missing");
	CHECK(!is_iterated(port_b), "the program finds port b");
	CHECK(port_up(port_a, NULL) == 0 && port_up(port_b, NULL) == 0, "port b does not work");
}

const struct driver_case driver_devargs_cases[] = {
        CASE(refuses_by_name, ""),
        CASE(takes_all_documented, ""),
        CASE(ports_have_the_macs_asked_for, ""),
        CASE(frames_find_the_mac_asked_for, "mac_b=02:02:02:02:02:02"),
        CASE(port_b_is_kept_from_the_program, ""),
        {0},
};
