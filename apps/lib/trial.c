/* SPDX-License-Identifier: BSD-3-Clause */
#include "trial.h"

#include <unistd.h>

#include <rte_lcore.h>

void trial_wake(const struct trial *trial)
{
	const uint64_t one = 1;

	if (trial->closed)
		atomic_store(&trial->closed[rte_lcore_id()], true);
	/* an eventfd takes 2^64 - 2 of these before it would block */
	if (write(trial->wake_fd, &one, sizeof(one)) != sizeof(one))
		return;
}
