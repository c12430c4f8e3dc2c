/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces coder.c if ISA-L is missing: no coder can be made, so none is used. */
#include <stddef.h>

#include "coder.h"

struct coder *coder_new(const struct coder_spec *spec, struct node_error *err)
{
	(void)spec;
	node_fail(err, "dut.workload",
	          "rs and raid: pollscope-node was built without ISA-L; "
	          "install it (Debian: libisal-dev) and build again");
	return NULL;
}

void coder_free(struct coder *coder)
{
	(void)coder;
}

bool coder_encode(struct coder *coder, struct rte_mbuf *packet)
{
	(void)coder;
	(void)packet;
	return false;
}
