/* SPDX-License-Identifier: BSD-3-Clause */
/* The redirection table of a port as one list: the RX queue of each entry. Main lcore only; senders may run. */
#ifndef PORT_RETA_H
#define PORT_RETA_H

#include <stdint.h>

/* `size` is the port's reta_size. Return 0, or a negative errno as of ethdev. */
int port_reta_read(uint16_t port, uint16_t *queues, uint16_t size);
int port_reta_write(uint16_t port, const uint16_t *queues, uint16_t size);

#endif
