/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CROSSOVER_DEVARGS_H
#define CROSSOVER_DEVARGS_H

#include "crossover_port.h"

#define CROSSOVER_DEVARGS_HELP                                                                               \
	"dma=copy|swap "                                                                                     \
	"feed=wire|infinite "                                                                                \
	"rx=standard|corec "                                                                                 \
	"size=<64..9000> "                                                                                   \
	"flows=<1..65535> "                                                                                  \
	"mac_a=<xx:xx:xx:xx:xx:xx> "                                                                         \
	"mac_b=<xx:xx:xx:xx:xx:xx>"

/*
 * Reads the device arguments ("key=value,...", may be NULL or empty) into 'options'.
 * Returns 0, or -EINVAL after logging which key or value is wrong and what is allowed: unknown key, key given twice,
 * missing or bad value, keys that exclude each other.
 */
int crossover_devargs_parse(const char *args, struct crossover_options *options);

#endif
