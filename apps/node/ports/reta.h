/* SPDX-License-Identifier: BSD-3-Clause */
/* The redirection table of a port as a list of RX queues, one per entry. Main lcore only; senders may run. */
#ifndef PORT_RETA_H
#define PORT_RETA_H

#include <stdint.h>

/* `size` is the port's reta_size. Returns 0, or a negative errno as ethdev does. */
int port_reta_read(uint16_t port, uint16_t *queues, uint16_t size);
int port_reta_write(uint16_t port, const uint16_t *queues, uint16_t size);

#endif
