/* SPDX-License-Identifier: BSD-3-Clause */
#include "sequence.h"

#include <stdlib.h>
#include <string.h>

struct sequence *sequence_new(uint32_t flows)
{
	struct sequence *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->flows = flows;
	s->flow_next = calloc(flows, sizeof(*s->flow_next));
	if (s->flow_next == NULL) {
		free(s);
		return NULL;
	}
	return s;
}

void sequence_reset(struct sequence *s)
{
	uint64_t *const flow_next = s->flow_next;
	const uint32_t flows = s->flows;

	memset(s, 0, sizeof(*s));
	memset(flow_next, 0, flows * sizeof(*flow_next));
	s->flow_next = flow_next;
	s->flows = flows;
}

void sequence_free(struct sequence *s)
{
	if (s != NULL)
		free(s->flow_next);
	free(s);
}

void sequence_clear_ahead(struct sequence *s, uint64_t next)
{
	/* A word is cleared when the window enters it; the word that holds s->next - 1 is in use already. */
	uint64_t first = (s->next + 63) / 64;
	const uint64_t last = (next - 1) / 64;

	if (last - first >= SEQUENCE_WINDOW / 64 && last >= first)
		first = last - SEQUENCE_WINDOW / 64 + 1;
	for (uint64_t word = first; word <= last; word++)
		s->seen[word % (SEQUENCE_WINDOW / 64)] = 0;
}
