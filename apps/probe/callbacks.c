/* SPDX-License-Identifier: BSD-3-Clause */
#include "callbacks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "dpdk.h"
#include "grace.h"

/*
 * Removed callbacks that may wait: those of this many windows like the last one, and some more. A callback waits for up to two grace
 * periods of 1 s, in which the default settings have 40 windows. It takes 192 bytes of the program's hugepages.
 */
#define WAITING_WINDOWS 48
#define WAITING_MIN     16384

typedef const struct rte_eth_rxtx_callback *callback;

struct installed {
	callback callback;
	uint16_t port;
	uint16_t queue;
	enum probe_direction direction;
};

/* Of one port and direction. Callbacks point into `queues`, so it never moves and is never freed. */
struct queues {
	struct probe_queue *queues; /* RTE_MAX_QUEUES_PER_PORT of them */
	uint16_t count;             /* that have had a callback */
};

static pthread_mutex_t *port_lock;
static bool follows_ports;
static struct queues ports[RTE_MAX_ETHPORTS][PROBE_DIRECTIONS];
static bool is_gone[RTE_MAX_ETHPORTS];
static struct installed *installed;
static uint32_t installed_count, installed_max;
static uint32_t last_count; /* installed by the last window */
static callback *removed;   /* first `in_grace` of them wait for the grace period that runs */
static uint32_t removed_count, removed_max, in_grace;

static bool is_usable(uint16_t port)
{
	return !is_gone[port] && rte_eth_dev_is_valid_port(port);
}

static bool there_is_a_port(void)
{
	for (uint16_t port = 0; port < RTE_MAX_ETHPORTS; port++)
		if (is_usable(port))
			return true;
	return false;
}

/* DPDK's own calls refuse a queue that the port does not have. */
static callback add_callback(uint16_t port, uint16_t id, enum probe_direction direction,
                             struct probe_queue *queue)
{
	if (direction == PROBE_TX)
		return rte_eth_add_tx_callback(port, id, probe_send, queue);
	return rte_eth_add_rx_callback(port, id, probe_receive, queue);
}

/* On cache lines of their own: calloc() would let neighbouring queues of two threads share them. */
static struct probe_queue *new_queues(void)
{
	void *queues = mmap(NULL, RTE_MAX_QUEUES_PER_PORT * sizeof(struct probe_queue),
	                    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return queues == MAP_FAILED ? NULL : queues;
}

static void add_to_port(uint16_t port, enum probe_direction direction)
{
	struct queues *all = &ports[port][direction];

	if (all->queues == NULL)
		all->queues = new_queues();
	if (all->queues == NULL)
		return;
	for (uint16_t id = 0; id < RTE_MAX_QUEUES_PER_PORT; id++) {
		struct probe_queue *queue = &all->queues[id];
		callback added;
		void *larger;

		queue->shadow = direction == PROBE_RX_SHADOW;
		larger = probe_grown(installed, installed_count, &installed_max, sizeof(*installed));
		if (larger == NULL)
			return;
		installed = larger;
		added = add_callback(port, id, direction, queue);
		if (added == NULL)
			return;
		installed[installed_count++] = (struct installed){
		        .callback = added, .port = port, .queue = id, .direction = direction};
		if (id >= all->count)
			__atomic_store_n(&all->count, id + 1, __ATOMIC_RELEASE);
	}
}

/* Returns false if DPDK does not let go of it. */
static bool remove_callback(const struct installed *it)
{
	void *larger = probe_grown(removed, removed_count, &removed_max, sizeof(*removed));
	int status;

	if (larger == NULL)
		return false;
	removed = larger;
	if (it->direction == PROBE_TX)
		status = rte_eth_remove_tx_callback(it->port, it->queue, it->callback);
	else
		status = rte_eth_remove_rx_callback(it->port, it->queue, it->callback);
	if (status == 0)
		removed[removed_count++] = it->callback;
	return status == 0;
}

/* Of this port, or of all that are usable. */
static void remove_from(uint16_t port, bool all)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < installed_count; i++) {
		const uint16_t its = installed[i].port;
		const bool chosen = all ? is_usable(its) : its == port && rte_eth_dev_is_valid_port(port);

		if (!chosen || !remove_callback(&installed[i]))
			installed[kept++] = installed[i];
	}
	installed_count = kept;
}

bool probe_callbacks_add(bool doubled)
{
	uint32_t before;

	/* Remove callbacks that stayed on a port that disappeared, if it is back. */
	remove_from(0, true);
	before = installed_count;
	if (removed_count > WAITING_WINDOWS * last_count + WAITING_MIN)
		return false;
	for (uint16_t port = 0; port < RTE_MAX_ETHPORTS; port++) {
		if (!is_usable(port))
			continue;
		add_to_port(port, PROBE_RX);
		add_to_port(port, PROBE_TX);
		if (doubled)
			add_to_port(port, PROBE_RX_SHADOW);
	}
	last_count = installed_count - before;
	return true;
}

static void begin_grace(void)
{
	if (in_grace == 0 && removed_count > 0 && probe_grace_begin() == 0)
		in_grace = removed_count;
}

void probe_callbacks_remove(void)
{
	remove_from(0, true);
	begin_grace();
}

bool probe_callbacks_reclaim(void)
{
	if (in_grace > 0 && there_is_a_port() && probe_grace_over()) {
		for (uint32_t i = 0; i < in_grace; i++)
			rte_free((void *)(uintptr_t)removed[i]);
		removed_count -= in_grace;
		memmove(removed, removed + in_grace, removed_count * sizeof(*removed));
		in_grace = 0;
	}
	begin_grace();
	return removed_count > 0 && there_is_a_port();
}

uint32_t probe_callbacks_count(void)
{
	return installed_count;
}

static int on_port_event(uint16_t port, enum rte_eth_event_type event, void *argument, void *result)
{
	(void)argument, (void)result;
	pthread_mutex_lock(port_lock);
	if (event == RTE_ETH_EVENT_DESTROY)
		remove_from(port, false);
	is_gone[port] = event == RTE_ETH_EVENT_DESTROY;
	pthread_mutex_unlock(port_lock);
	return 0;
}

int probe_callbacks_init(pthread_mutex_t *lock)
{
	int status;

	port_lock = lock; /* before the first event can come */
	if (follows_ports)
		return 0;
	status = rte_eth_dev_callback_register(RTE_ETH_ALL, RTE_ETH_EVENT_DESTROY, on_port_event, NULL);
	if (status == 0)
		status = rte_eth_dev_callback_register(RTE_ETH_ALL, RTE_ETH_EVENT_NEW, on_port_event, NULL);
	follows_ports = status == 0;
	return status;
}

const struct probe_queue *probe_queue_at(uint32_t place, uint16_t *port, enum probe_direction *direction,
                                         uint16_t *id)
{
	for (*port = 0; *port < RTE_MAX_ETHPORTS; (*port)++)
		for (*direction = PROBE_RX; *direction <= PROBE_TX; (*direction)++) {
			const struct queues *all = &ports[*port][*direction];
			const uint16_t count = __atomic_load_n(&all->count, __ATOMIC_ACQUIRE);

			if (place < count) {
				*id = (uint16_t)place;
				return &all->queues[place];
			}
			place -= count;
		}
	return NULL;
}
