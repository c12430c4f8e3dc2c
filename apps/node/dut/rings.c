/* SPDX-License-Identifier: BSD-3-Clause */
#include "rings.h"

#include <rte_malloc.h>

static struct {
	struct rte_ring *rings[RTE_MAX_LCORE];
	uint32_t left[RTE_MAX_LCORE];
	unsigned int n;
	uint32_t slots;
	enum handoff_sync sync;
} rings;

/* A ring with one lcore at each end needs no synchronisation. */
static enum handoff_sync needed_sync(const struct dut_config *config)
{
	return config->organisation == SCALE_UP ? config->ring_sync : HANDOFF_SINGLE;
}

int dut_rings_make(const struct dut_config *config, struct node_error *err)
{
	const unsigned int n = dut_config_rings(config);

	if (rings.n == n && rings.slots == config->ring_slots && rings.sync == needed_sync(config))
		return 0;
	dut_rings_free();
	rings.slots = config->ring_slots;
	rings.sync = needed_sync(config);
	for (; rings.n < n; rings.n++) {
		const int socket = (int)rte_lcore_to_socket_id(config->workers.lcores[rings.n]);

		rings.left[rings.n] = 0;
		void *memory =
		        rte_zmalloc_socket("ring", handoff_bytes(rings.slots), RTE_CACHE_LINE_SIZE, socket);

		if (memory) {
			rings.rings[rings.n] = handoff_init(memory, rings.slots, rings.sync);
			continue;
		}
		dut_rings_free();
		return node_fail(err, "dut.ring_size", "no memory for %u rings of %u slots", n,
		                 config->ring_slots);
	}
	return 0;
}

struct rte_ring *dut_ring(unsigned int i)
{
	return rings.n ? rings.rings[i % rings.n] : NULL;
}

bool dut_rings_waiting(void)
{
	for (unsigned int i = 0; i < rings.n; i++)
		if (handoff_count(rings.rings[i]) > 0)
			return true;
	return false;
}

void dut_rings_end(void)
{
	for (unsigned int i = 0; i < rings.n; i++)
		rings.left[i] = handoff_empty(rings.rings[i]);
}

json_t *dut_rings_json(void)
{
	json_t *list = rings.n ? json_array() : NULL;

	for (unsigned int i = 0; i < rings.n; i++)
		json_array_append_new(list, json_pack("{s:I,s:s,s:I}", "size", (json_int_t)rings.slots,
		                                      "sync", handoff_sync_names[rings.sync], "left",
		                                      (json_int_t)rings.left[i]));
	return list;
}

void dut_rings_free(void)
{
	dut_rings_end();
	while (rings.n)
		rte_free(rings.rings[--rings.n]);
}
