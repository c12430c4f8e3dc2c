/* SPDX-License-Identifier: BSD-3-Clause */
/* pollscope-node plays DUT and generator on its lcores, as requests on standard input say (node-protocol.md). */
#include "node_main.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>

#include "control.h"
#include "dut/dut.h"
#include "eal_folder.h"
#include "gen/gen.h"
#include "host_state.h"
#include "ports/ports.h"
#include "loop/selftest.h"
#include "telemetry.h"
#include "stop_signals.h"

/* Standard output is for the protocol only: what libraries print there goes to standard error. */
static int claim_output(void)
{
	const int out = dup(STDOUT_FILENO);

	if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return -1;
	return out;
}

static int usage(const char *argument)
{
	fprintf(stderr,
	        "pollscope-node: unknown argument %s\nusage: pollscope-node [EAL options] [-- --self-test]\n",
	        argument);
	return 2;
}

/* Return whether DPDK's packet buffers have their driver. Without it, making a pool fails with "Invalid argument". */
static bool has_buffer_driver(void)
{
	const char *const wanted = rte_mbuf_best_mempool_ops();

	for (uint32_t i = 0; i < rte_mempool_ops_table.num_ops; i++)
		if (strcmp(rte_mempool_ops_table.ops[i].name, wanted) == 0)
			return true;
	fprintf(stderr,
	        "pollscope-node: no driver for packet buffers of the kind %s is loaded (DPDK's is "
	        "librte_mempool_ring.so: name it with -d, or put it into EAL's driver folder)\n",
	        wanted);
	return false;
}

static int serve(int out, const struct conversation_command *own, const volatile sig_atomic_t *stop)
{
	int status = telemetry_open();

	if (status == 0)
		status = control_run(STDIN_FILENO, out, own, stop);
	if (status == -ETIMEDOUT) {
		/* memory that they use must not be freed, and rte_eal_cleanup() would wait for them */
		fprintf(stderr, "pollscope-node: an lcore hangs, so the node ends without cleaning up\n");
		_exit(1);
	}
	if (rte_eal_process_type() == RTE_PROC_SECONDARY) {
		/* the program frees the rings, and until then the pools of the mbufs in them must stay */
		ports_stop();
		return status == 0 ? 0 : 1;
	}
	/* rings may hold mbufs of the generator's pool */
	ports_close();
	gen_close();
	dut_close();
	host_state_close();
	if (status == 0)
		return 0;
	fprintf(stderr, "pollscope-node: %s\n", strerror(-status));
	return 1;
}

int node_main(int argc, char *argv[], const struct conversation_command *own)
{
	const int out = claim_output();

	if (out < 0) {
		perror("pollscope-node: standard output");
		return 1;
	}
	eal_folder_remove_at_exit();
	const int eal_arguments = rte_eal_init(argc, argv);

	if (eal_arguments < 0) {
		fprintf(stderr, "pollscope-node: EAL: %s\n", rte_strerror(rte_errno));
		return 3;
	}
	argc -= eal_arguments;
	argv += eal_arguments;
	const volatile sig_atomic_t *const stop = stop_signals_catch();
	int status;

	if (!has_buffer_driver())
		status = 3;
	else if (argc <= 1)
		status = serve(out, own, stop);
	else if (argc == 2 && strcmp(argv[1], "--self-test") == 0)
		status = selftest_print(out);
	else
		status = usage(argv[1]);
	rte_eal_cleanup();
	return status;
}
