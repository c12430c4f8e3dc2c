/* SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>

#include "node_main.h"

int main(int argc, char *argv[])
{
	return node_main(argc, argv, NULL);
}
