/* SPDX-License-Identifier: BSD-3-Clause */
#include "eal_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <rte_eal.h>

static void remove_folder(void)
{
	rmdir(rte_eal_get_runtime_dir());
}

void eal_folder_remove_at_exit(void)
{
	atexit(remove_folder);
}
