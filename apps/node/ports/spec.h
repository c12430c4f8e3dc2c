/* SPDX-License-Identifier: BSD-3-Clause */
/* One object of the `ports` of a configure request (node-protocol.md), checked against what its device can do. */
#ifndef PORT_SPEC_H
#define PORT_SPEC_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "node_error.h"

#define PORT_KEY_MAX_BYTES 64

/* Place of the empty buffers of RX queues (net_crossover.h, enum net_crossover_buffers, in the same order). */
enum port_buffers { PORT_BUFFERS_POSTED, PORT_BUFFERS_SHARED, PORT_BUFFERS_SPLIT };

extern const char *const port_buffers_names[]; /* ends with NULL */

struct port_spec {
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint16_t rx_desc;
	uint16_t tx_desc;
	uint16_t mtu;
	unsigned int buffers; /* enum port_buffers */
	uint16_t buffer_pool; /* buffers of a buffer pool; unused if buffers are posted */
	bool corec;    /* several lcores poll an RX queue at once; set from the DUT, not from the object */
	bool rss_hash; /* packets come with their hash; set from the DUT */
	bool timesync; /* its clock stamps PTP frames if it can; set from the generator */
	uint8_t key_bytes; /* 0: the driver's own key */
	uint8_t key[PORT_KEY_MAX_BYTES];
};

/* Read `object`, found at the JSON path `at`. Returns 0 with the number of the port and *spec, or -1 with err. */
int port_spec_read(const json_t *object, const char *at, uint16_t *port, struct port_spec *spec,
                   struct node_error *err);

bool port_spec_same(const struct port_spec *a, const struct port_spec *b);

#endif
