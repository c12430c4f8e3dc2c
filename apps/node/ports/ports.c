/* SPDX-License-Identifier: BSD-3-Clause */
#include "ports.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

#include "accounting.h"
#include "counters.h"
#include "net_crossover.h"
#include "pools.h"
#include "reta.h"
#include "spec.h"

#define POOL_CACHE     512 /* mbufs per lcore: the most that rte_mempool allows; LIFO, so buffers stay warm */
#define MIN_DATA_BYTES 2048
#define MBITS          UINT64_C(1000000)

struct port {
	struct rte_mempool *pool;
	unsigned int pool_generation;
	struct port_spec spec;
	bool configured; /* `spec` describes the device */
	bool running;
	bool watched; /* runs, and belongs to the program beside which this node is a secondary process */
	int timesync; /* 0: its clock runs; otherwise a negative error number */
};

/* Beside a program with net_crossover's ports=a, the node uses a port that is owned, so that the program does not see it. */
static uint16_t next_port(uint16_t port)
{
	return (uint16_t)(rte_eal_process_type() == RTE_PROC_SECONDARY
	                          ? rte_eth_find_next(port)
	                          : rte_eth_find_next_owned_by(port, RTE_ETH_DEV_NO_OWNER));
}

#define foreach_port(port)                                                                                   \
	for ((port) = next_port(0); (port) < RTE_MAX_ETHPORTS; (port) = next_port((port) + 1))

static struct port ports[RTE_MAX_ETHPORTS];
static struct ports_plan plan; /* of the present configuration */

static const char *port_name(uint16_t port, char name[RTE_ETH_NAME_MAX_LEN])
{
	if (rte_eth_dev_get_name_by_port(port, name) < 0)
		snprintf(name, RTE_ETH_NAME_MAX_LEN, "port%u", port);
	return name;
}

static json_t *link_speed(uint16_t port, const char *name, json_t *absent)
{
	struct rte_eth_link link = {0};
	char thing[RTE_ETH_NAME_MAX_LEN + 16];

	if (rte_eth_link_get_nowait(port, &link) == 0 && link.link_speed != RTE_ETH_SPEED_NUM_NONE &&
	    link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN)
		return json_integer((json_int_t)(link.link_speed * MBITS));
	snprintf(thing, sizeof(thing), "link_bps.%s", name);
	json_object_set_new(absent, thing, json_string("the driver reports no link speed"));
	return json_null();
}

static json_t *hello_port(uint16_t port, json_t *absent)
{
	struct rte_eth_dev_info info;
	char name[RTE_ETH_NAME_MAX_LEN];
	const int status = rte_eth_dev_info_get(port, &info);

	port_name(port, name);
	if (status < 0) {
		json_object_set_new(absent, name, json_string(rte_strerror(-status)));
		return NULL;
	}
	return json_pack("{s:i,s:s,s:s,s:i,s:i,s:o,s:i,s:i}", "port", port, "name", name, "driver",
	                 info.driver_name, "max_rx_queues", info.max_rx_queues, "max_tx_queues",
	                 info.max_tx_queues, "link_bps", link_speed(port, name, absent), "reta_size",
	                 info.reta_size, "rss_key_bytes", info.hash_key_size);
}

json_t *ports_hello(json_t *absent)
{
	json_t *list = json_array();
	uint16_t port;

	foreach_port (port) {
		json_t *entry = hello_port(port, absent);

		if (entry)
			json_array_append_new(list, entry);
	}
	return list;
}

static int stop_port(uint16_t port)
{
	if (!ports[port].running)
		return 0;
	ports[port].running = false;
	if (ports[port].timesync == 0)
		rte_eth_timesync_disable(port);
	ports[port].timesync = -ENODEV;
	return rte_eth_dev_stop(port);
}

/* Return the size of a buffer that holds a whole frame of this MTU: Ethernet header, two VLAN tags, FCS. */
static uint16_t data_room(const struct port_spec *spec)
{
	const uint32_t frame = spec->mtu + RTE_ETHER_HDR_LEN + 8u + RTE_ETHER_CRC_LEN;

	return (uint16_t)(RTE_PKTMBUF_HEADROOM +
	                  RTE_ALIGN_CEIL(RTE_MAX(frame, (uint32_t)MIN_DATA_BYTES), 64u));
}

/* Count posted buffers, those in any TX ring or outside ports, and those in the caches and bursts of the lcores. */
static unsigned int pool_size(uint16_t port)
{
	const struct port_spec *next = &plan.ports[port].spec;
	uint32_t sum = (uint32_t)next->rx_queues * next->rx_desc;

	/* in addition to what was delivered and not yet polled */
	if (next->buffers != PORT_BUFFERS_POSTED)
		sum += (uint32_t)next->rx_queues * next->buffer_pool;
	if (port == plan.held_port)
		sum += plan.held_mbufs;
	for (unsigned int p = 0; p < RTE_MAX_ETHPORTS; p++)
		if (plan.ports[p].wanted)
			sum += (uint32_t)plan.ports[p].spec.tx_queues * plan.ports[p].spec.tx_desc;
	return sum + rte_lcore_count() * (POOL_CACHE * 3 / 2 + ACCOUNT_BURST_MAX);
}

/* Give the port a pool that is large enough; *old becomes the one to release once its queues are set up again. */
static int ensure_pool(uint16_t port, struct rte_mempool **old, struct node_error *err)
{
	struct port *p = &ports[port];
	const unsigned int size = pool_size(port);
	const uint16_t room = data_room(&plan.ports[port].spec);
	char name[RTE_MEMPOOL_NAMESIZE];

	*old = NULL;
	if (p->pool && p->pool->size >= size && rte_pktmbuf_data_room_size(p->pool) >= room)
		return 0;
	snprintf(name, sizeof(name), "rx%u.%u", port, p->pool_generation++);
	struct rte_mempool *pool =
	        rte_pktmbuf_pool_create(name, size, POOL_CACHE, 0, room, rte_eth_dev_socket_id(port));

	if (!pool)
		return node_fail(err, plan.ports[port].at, "memory for %u buffers of %u bytes: %s", size,
		                 room, rte_strerror(rte_errno));
	pool_mix(pool);
	*old = p->pool;
	p->pool = pool;
	return 0;
}

static int set_buffers(uint16_t port, struct node_error *err)
{
	const struct port_spec *next = &plan.ports[port].spec;
	const int status = next->buffers == PORT_BUFFERS_POSTED
	                           ? 0
	                           : net_crossover_rx_buffers(port, (enum net_crossover_buffers)next->buffers,
	                                                      next->buffer_pool);

	if (status == 0)
		return 0;
	if (status == -ENODEV)
		return node_fail(err, plan.ports[port].at, "buffers %s need a port of %s",
		                 port_buffers_names[next->buffers], NET_CROSSOVER_DRIVER_NAME);
	return node_fail(err, plan.ports[port].at, "buffers %s: %s", port_buffers_names[next->buffers],
	                 status == -ENOTSUP
	                         ? "the port feeds itself or swaps buffers (feed=infinite, dma=swap)"
	                         : rte_strerror(-status));
}

/* Before the device is configured, because the mode decides what it offers. */
static int set_rx_mode(uint16_t port, struct node_error *err)
{
	const bool corec = plan.ports[port].spec.corec;
	const int status = net_crossover_rx_corec(port, corec);

	if (status == 0 || (status == -ENODEV && !corec))
		return set_buffers(port, err);
	if (status == -ENODEV)
		return node_fail(err, "dut.organisation", "corec needs a port of %s",
		                 NET_CROSSOVER_DRIVER_NAME);
	return node_fail(err, "dut.organisation", "corec: %s",
	                 status == -ENOTSUP ? "the port feeds itself (feed=infinite)"
	                                    : rte_strerror(-status));
}

static int check_call(const char *call, int status, uint16_t port, struct node_error *err)
{
	return status < 0 ? node_fail(err, plan.ports[port].at, "%s: %s", call, rte_strerror(-status)) : 0;
}

static int setup_device(uint16_t port, struct node_error *err)
{
	const struct port_spec *next = &plan.ports[port].spec;
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf = {.rxmode.mtu = next->mtu};

	if (rte_eth_dev_info_get(port, &info) < 0)
		return node_fail(err, plan.ports[port].at, "its properties cannot be read");
	conf.rx_adv_conf.rss_conf.rss_hf =
	        info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
	if (next->rx_queues > 1 && conf.rx_adv_conf.rss_conf.rss_hf)
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	if (next->key_bytes) {
		conf.rx_adv_conf.rss_conf.rss_key = plan.ports[port].spec.key;
		conf.rx_adv_conf.rss_conf.rss_key_len = next->key_bytes;
	}
	if (next->timesync) /* without this, some drivers stamp nothing */
		conf.rxmode.offloads |= info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP;
	if (next->rss_hash)
		conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_RSS_HASH;
	if (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS)
		conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	return check_call("rte_eth_dev_configure",
	                  rte_eth_dev_configure(port, next->rx_queues, next->tx_queues, &conf), port, err);
}

static int setup_queues(uint16_t port, struct node_error *err)
{
	const struct port_spec *next = &plan.ports[port].spec;
	const int socket = rte_eth_dev_socket_id(port);
	int status = 0;

	for (uint16_t q = 0; q < next->rx_queues && status == 0; q++)
		status = rte_eth_rx_queue_setup(port, q, next->rx_desc, (unsigned int)socket, NULL,
		                                ports[port].pool);
	if (check_call("rte_eth_rx_queue_setup", status, port, err))
		return -1;
	for (uint16_t q = 0; q < next->tx_queues && status == 0; q++)
		status = rte_eth_tx_queue_setup(port, q, next->tx_desc, (unsigned int)socket, NULL);
	return check_call("rte_eth_tx_queue_setup", status, port, err);
}

/* Round-robin. */
static int set_reta(uint16_t port, struct node_error *err)
{
	struct rte_eth_dev_info info;
	const struct port_spec *next = &plan.ports[port].spec;

	if (next->rx_queues == 1 || rte_eth_dev_info_get(port, &info) < 0 || info.reta_size == 0)
		return 0;
	uint16_t *queues = calloc(info.reta_size, sizeof(*queues));

	if (!queues)
		return node_fail(err, plan.ports[port].at, "out of memory");
	for (uint32_t i = 0; i < info.reta_size; i++)
		queues[i] = (uint16_t)(i % next->rx_queues);
	const int status = port_reta_write(port, queues, info.reta_size);

	free(queues);
	return check_call("rte_eth_dev_rss_reta_update", status, port, err);
}

static int start_port(uint16_t port, struct node_error *err)
{
	if (check_call("rte_eth_dev_start", rte_eth_dev_start(port), port, err))
		return -1;
	ports[port].running = true;
	ports[port].timesync = plan.ports[port].spec.timesync ? rte_eth_timesync_enable(port) : -ENODEV;
	return 0;
}

static int setup_port(uint16_t port, struct node_error *err)
{
	struct port *p = &ports[port];
	struct rte_mempool *old;

	if (ensure_pool(port, &old, err) < 0)
		return -1;
	p->configured = false;
	const int status = set_rx_mode(port, err) || setup_device(port, err) || setup_queues(port, err) ||
	                   start_port(port, err) || set_reta(port, err) ||
	                   port_counters_learn(port, plan.ports[port].at, err);

	pool_retire(old);
	if (status)
		return -1;
	/* frames of DUT and generator must arrive whatever their MAC address */
	if (rte_eth_promiscuous_enable(port) < 0 && rte_eth_promiscuous_get(port) != 1)
		return node_fail(err, plan.ports[port].at, "promiscuous mode is refused");
	p->spec = plan.ports[port].spec;
	p->configured = true;
	return 0;
}

/* Return whether the port runs as the plan says. */
static bool is_ready(uint16_t port)
{
	const struct port *p = &ports[port];

	return p->configured && p->running && port_spec_same(&p->spec, &plan.ports[port].spec) &&
	       p->pool->size >= pool_size(port);
}

static bool must_change(uint16_t port)
{
	return plan.ports[port].wanted && !is_ready(port);
}

/* Count what the program's ports do, too. A link is up only if both of its ports run. */
static int watch_program(struct node_error *err)
{
	uint16_t port;

	foreach_port (port) {
		struct rte_eth_link link = {0};

		ports[port].watched = rte_eal_process_type() == RTE_PROC_SECONDARY &&
		                      !plan.ports[port].wanted && rte_eth_link_get_nowait(port, &link) == 0 &&
		                      link.link_status == RTE_ETH_LINK_UP;
		if (ports[port].watched && port_counters_learn(port, "ports", err))
			return -1;
	}
	return 0;
}

static bool is_counted(uint16_t port)
{
	return ports[port].running || ports[port].watched;
}

int ports_apply(const struct ports_plan *wanted, struct node_error *err)
{
	uint16_t port;

	plan = *wanted;
	pools_free_retired();
	foreach_port (port)
		if (!plan.ports[port].wanted || must_change(port))
			stop_port(port);
	foreach_port (port) {
		if (!must_change(port) || setup_port(port, err) == 0)
			continue;
		stop_port(port);
		return -1;
	}
	return watch_program(err);
}

uint16_t ports_rx_queues(uint16_t port)
{
	return ports[port].spec.rx_queues;
}

int ports_timesync(uint16_t port)
{
	return ports[port].timesync;
}

uint32_t ports_tx_descriptors(uint16_t port)
{
	return (uint32_t)ports[port].spec.tx_queues * ports[port].spec.tx_desc;
}

uint32_t ports_rx_descriptors(void)
{
	uint32_t descriptors = 0;

	for (unsigned int p = 0; p < RTE_MAX_ETHPORTS; p++)
		if (ports[p].running)
			descriptors += (uint32_t)ports[p].spec.rx_queues * ports[p].spec.rx_desc;
	return descriptors;
}

uint32_t ports_held_mbufs(void)
{
	return plan.held_mbufs;
}

bool ports_buffers_change_hands(uint16_t port)
{
	struct rte_eth_dev_info info;

	if (rte_eth_dev_info_get(port, &info) != 0 || info.device == NULL)
		return false;
	const struct rte_devargs *devargs = rte_dev_devargs(info.device);

	return devargs != NULL && devargs->args != NULL && strstr(devargs->args, "dma=swap") != NULL;
}

static uint64_t posted_bytes(const struct port *p)
{
	const uint64_t stride = p->pool->header_size + p->pool->elt_size + p->pool->trailer_size;

	switch (p->spec.buffers) {
	case PORT_BUFFERS_SHARED:
		return stride * p->spec.buffer_pool;
	case PORT_BUFFERS_SPLIT:
		return stride * p->spec.rx_queues * p->spec.buffer_pool;
	default:
		return stride * p->spec.rx_queues * p->spec.rx_desc;
	}
}

json_t *ports_links(void)
{
	json_t *object = json_object();
	char name[RTE_ETH_NAME_MAX_LEN];
	uint16_t port;

	foreach_port (port) {
		struct rte_eth_link link = {0};
		const bool is_up =
		        rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;

		if (ports[port].running)
			json_object_set_new(object, port_name(port, name), json_boolean(is_up));
	}
	return object;
}

json_t *ports_footprint(void)
{
	json_t *object = json_object();
	char name[RTE_ETH_NAME_MAX_LEN];
	uint16_t port;

	foreach_port (port) {
		if (ports[port].running)
			json_object_set_new(object, port_name(port, name),
			                    json_integer((json_int_t)posted_bytes(&ports[port])));
	}
	return object;
}

void ports_mark(void)
{
	uint16_t port;

	foreach_port (port)
		if (is_counted(port))
			port_counters_mark(port);
}

json_t *ports_report(void)
{
	json_t *object = json_object();
	char name[RTE_ETH_NAME_MAX_LEN];
	uint16_t port;

	foreach_port (port) {
		struct rte_eth_dev_info info;

		if (!is_counted(port) || rte_eth_dev_info_get(port, &info) != 0)
			continue;
		json_t *report = port_counters_report(port, info.nb_rx_queues);

		if (ports[port].running) /* the mempool of a program is not known here */
			json_object_set_new(report, "posted_bytes",
			                    json_integer((json_int_t)posted_bytes(&ports[port])));
		json_object_set_new(object, port_name(port, name), report);
	}
	return object;
}

uint64_t ports_movement(void)
{
	uint64_t frames = 0;
	uint16_t port;

	foreach_port (port)
		if (is_counted(port))
			frames += port_counters_movement(port);
	return frames;
}

void ports_stop(void)
{
	uint16_t port;

	foreach_port (port)
		stop_port(port);
}

void ports_close(void)
{
	uint16_t port;

	foreach_port (port) {
		stop_port(port);
		port_counters_forget(port);
		rte_eth_dev_close(port);
	}
}
