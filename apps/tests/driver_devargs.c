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
        {"feed=none", "'feed': bad value 'none'", "wire, infinite"},
        {"feed=infinite,size=63", "'size': bad value '63'", "from 64 to 9000"},
        {"feed=infinite,size=9001", "'size': bad value '9001'", "from 64 to 9000"},
        {"feed=infinite,size=64k", "'size': bad value '64k'", "from 64 to 9000"},
        {"feed=infinite,size=-64", "'size': bad value '-64'", "from 64 to 9000"},
        {"feed=infinite,flows=0", "'flows': bad value '0'", "from 1 to 65535"},
        {"feed=infinite,flows=18446744073709551617", "'flows'", "from 1 to 65535"},
        {"feed=infinite,dma=swap", "'dma' and 'feed=infinite' exclude each other", "leave 'dma' out"},
        {"feed=infinite,dma=copy", "'dma' and 'feed=infinite' exclude each other", "leave 'dma' out"},
        {"size=128", "'size' needs 'feed=infinite'", "feed=wire"},
        {"feed=wire,flows=7", "'flows' needs 'feed=infinite'", "feed=wire"},
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
	        "feed=infinite",
	        "feed=infinite,size=64,flows=1",
	        "size=9000,flows=65535,feed=infinite",
	};

	for (unsigned int i = 0; i < RTE_DIM(accepted); i++) {
		CHECK(pair_make(accepted[i]) == 0, "'%s' was refused", accepted[i]);
		CHECK(port_a != port_b, "one port for both ends");
	}
}

const struct driver_case driver_devargs_cases[] = {
        {"devargs: unknown, doubled, bad and conflicting ones fail by name", "", refuses_by_name},
        {"devargs: the documented ones are taken", "", takes_all_documented},
        {NULL, NULL, NULL},
};
