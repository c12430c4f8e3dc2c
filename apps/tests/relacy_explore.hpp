/* SPDX-License-Identifier: BSD-3-Clause */
/* main() of a model check under Relacy: the command line says which schedules of `suite` are explored. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <relacy/relacy.hpp>

template <typename suite> int explore(int argc, char **argv)
{
	rl::test_params params;
	const bool bound = argc == 3 && strcmp(argv[1], "preemptions") == 0;

	if (!bound && (argc != 3 || strcmp(argv[1], "random") != 0)) {
		fprintf(stderr, "usage: %s preemptions N|random N\n", argv[0]);
		return 2;
	}
	params.search_type = bound ? rl::sched_bound : rl::sched_random;
	if (bound)
		params.context_bound = (unsigned int)strtoul(argv[2], NULL, 10);
	else
		params.iteration_count = strtoull(argv[2], NULL, 10);
	params.execution_depth_limit = 100000;
	return !rl::simulate<suite>(params);
}
