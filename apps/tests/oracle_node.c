/* SPDX-License-Identifier: BSD-3-Clause */
/* tests-oracle-node: pollscope-node with the request `oracle` (oracle.h). */
#include "node_main.h"
#include "oracle.h"

int main(int argc, char *argv[])
{
	static const struct conversation_command own = {.name = "oracle", .handle = oracle};

	return node_main(argc, argv, &own);
}
