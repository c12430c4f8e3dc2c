/* SPDX-License-Identifier: BSD-3-Clause */
#include "ports.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

#include "accounting.h"
#include "fields.h"

#define POOL_CACHE     512 /* mbufs per lcore: the most that rte_mempool allows; LIFO, keeps buffers warm */
#define KEY_MAX_BYTES  64
#define MIN_DATA_BYTES 2048
#define MBITS          UINT64_C(1000000)

struct port_spec {
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint16_t rx_desc;
	uint16_t tx_desc;
	uint16_t mtu;
	uint8_t key_bytes; /* 0: the driver's own key */
	uint8_t key[KEY_MAX_BYTES];
};

struct port {
	struct rte_mempool *pool;
	struct rte_eth_xstat_name *xstat_names;
	uint64_t *xstat_zero;
	struct rte_eth_stats zero;
	unsigned int pool_generation;
	int xstats;
	struct port_spec spec;
	struct port_spec next;
	bool wanted;     /* in the list of the present configure */
	bool holds;      /* some of its mbufs wait in rings outside of ports */
	bool configured; /* `spec` is what the device has */
	bool running;
	char at[32]; /* JSON path of its object */
};

static struct port ports[RTE_MAX_ETHPORTS];
static struct ports_held held; /* of the present configuration */

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
	json_object_set_new(absent, thing, json_string("the driver tells no link speed"));
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

	RTE_ETH_FOREACH_DEV (port) {
		json_t *entry = hello_port(port, absent);

		if (entry)
			json_array_append_new(list, entry);
	}
	return list;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static int parse_key(const char *hex, const char *at, uint8_t key_bytes, struct port_spec *spec,
                     struct node_error *err)
{
	if (key_bytes == 0)
		return node_fail(err, at, "this port has no RSS key");
	if (key_bytes > KEY_MAX_BYTES || strlen(hex) != 2u * key_bytes)
		return node_fail(err, at, "must have %u hexadecimal digits", 2u * key_bytes);
	for (unsigned int i = 0; i < key_bytes; i++) {
		const int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return node_fail(err, at, "must have hexadecimal digits only");
		spec->key[i] = (uint8_t)(high << 4 | low);
	}
	spec->key_bytes = key_bytes;
	return 0;
}

static int parse_rss(json_t *rss, const char *parent, const struct rte_eth_dev_info *info,
                     struct port_spec *spec, struct node_error *err)
{
	static const char *const keys[] = {"key", "reta", NULL};
	static const char *const retas[] = {"round-robin", NULL};
	char at[64], path[64];
	const char *key = NULL;
	unsigned int reta = 0;

	if (!rss)
		return 0;
	node_where(at, sizeof(at), parent, "rss");
	if (fields_only(rss, at, keys, err) || fields_choice(rss, at, "reta", retas, &reta, err) ||
	    fields_string(rss, at, "key", 2 * KEY_MAX_BYTES, &key, err))
		return -1;
	if (!key)
		return 0;
	return parse_key(key, node_where(path, sizeof(path), at, "key"), info->hash_key_size, spec, err);
}

struct number_field {
	const char *key;
	uint64_t min;
	uint64_t max;
	uint16_t *value;
};

static int parse_numbers(json_t *object, const char *at, const struct rte_eth_dev_info *info,
                         struct port_spec *spec, struct node_error *err)
{
	const struct number_field fields[] = {
	        {"rx_queues", 1, info->max_rx_queues, &spec->rx_queues},
	        {"tx_queues", 1, info->max_tx_queues, &spec->tx_queues},
	        {"rx_desc", info->rx_desc_lim.nb_min, info->rx_desc_lim.nb_max, &spec->rx_desc},
	        {"tx_desc", info->tx_desc_lim.nb_min, info->tx_desc_lim.nb_max, &spec->tx_desc},
	        {"mtu", info->min_mtu, info->max_mtu, &spec->mtu},
	};

	for (unsigned int i = 0; i < RTE_DIM(fields); i++) {
		uint64_t value = *fields[i].value;

		if (fields_u64(object, at, fields[i].key, fields[i].min,
		               RTE_MIN(fields[i].max, UINT64_C(65535)), &value, err))
			return -1;
		*fields[i].value = (uint16_t)value;
	}
	return 0;
}

static int parse_port(json_t *object, const char *at, struct node_error *err)
{
	static const char *const keys[] = {"name",    "rx_queues", "tx_queues", "rx_desc",
	                                   "tx_desc", "mtu",       "rss",       NULL};
	struct port_spec spec = {.rx_queues = 1, .tx_queues = 1, .rx_desc = 512, .tx_desc = 512, .mtu = 1500};
	struct rte_eth_dev_info info;
	const char *name = NULL;
	char path[48];
	uint16_t port;

	if (fields_only(object, at, keys, err) || fields_require(object, at, "name", err) ||
	    fields_string(object, at, "name", RTE_ETH_NAME_MAX_LEN - 1, &name, err))
		return -1;
	node_where(path, sizeof(path), at, "name");
	if (rte_eth_dev_get_port_by_name(name, &port) < 0 || rte_eth_dev_info_get(port, &info) < 0)
		return node_fail(err, path, "no port has the name %s", name);
	if (ports[port].wanted)
		return node_fail(err, path, "port %s is listed twice", name);
	if (parse_numbers(object, at, &info, &spec, err) ||
	    parse_rss(json_object_get(object, "rss"), at, &info, &spec, err))
		return -1;
	ports[port].wanted = true;
	ports[port].holds = held.port && strcmp(held.port, name) == 0;
	ports[port].next = spec;
	snprintf(ports[port].at, sizeof(ports[port].at), "%s", at);
	return 0;
}

static int parse_list(json_t *list, struct node_error *err)
{
	json_t *object;
	size_t i;

	for (unsigned int p = 0; p < RTE_MAX_ETHPORTS; p++)
		ports[p].wanted = false;
	if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > RTE_MAX_ETHPORTS)
		return node_fail(err, "ports", "must be an array of 1 to %u ports", RTE_MAX_ETHPORTS);
	json_array_foreach(list, i, object)
	{
		char at[32];

		snprintf(at, sizeof(at), "ports[%zu]", i);
		if (parse_port(object, at, err) < 0)
			return -1;
	}
	return 0;
}

static bool same_spec(const struct port_spec *a, const struct port_spec *b)
{
	return a->rx_queues == b->rx_queues && a->tx_queues == b->tx_queues && a->rx_desc == b->rx_desc &&
	       a->tx_desc == b->tx_desc && a->mtu == b->mtu && a->key_bytes == b->key_bytes &&
	       memcmp(a->key, b->key, a->key_bytes) == 0;
}

static int stop_port(uint16_t port)
{
	if (!ports[port].running)
		return 0;
	ports[port].running = false;
	return rte_eth_dev_stop(port);
}

/* Buffers that a frame of this MTU fits into whole: Ethernet header, two VLAN tags, FCS. */
static uint16_t data_room(const struct port_spec *spec)
{
	const uint32_t frame = spec->mtu + RTE_ETHER_HDR_LEN + 8u + RTE_ETHER_CRC_LEN;

	return (uint16_t)(RTE_PKTMBUF_HEADROOM +
	                  RTE_ALIGN_CEIL(RTE_MAX(frame, (uint32_t)MIN_DATA_BYTES), 64u));
}

/* Posted buffers, those waiting in any TX ring or outside of ports, those in the caches and bursts of the lcores. */
static unsigned int pool_size(const struct port *port)
{
	uint32_t sum = (uint32_t)port->next.rx_queues * port->next.rx_desc;

	if (port->holds)
		sum += held.mbufs;

	for (unsigned int p = 0; p < RTE_MAX_ETHPORTS; p++)
		if (ports[p].wanted)
			sum += (uint32_t)ports[p].next.tx_queues * ports[p].next.tx_desc;
	return sum + rte_lcore_count() * (POOL_CACHE * 3 / 2 + ACCOUNT_BURST_MAX);
}

/*
 * Pools that were replaced while some of their mbufs still lay in another port's ring. They are freed by a later
 * configure, when the mbufs have come back.
 */
static struct rte_mempool *retired[RTE_MAX_ETHPORTS];

static void free_retired(void)
{
	for (unsigned int i = 0; i < RTE_DIM(retired); i++) {
		if (!retired[i] || !rte_mempool_full(retired[i]))
			continue;
		rte_mempool_free(retired[i]);
		retired[i] = NULL;
	}
}

void ports_retire_pool(struct rte_mempool *pool)
{
	for (unsigned int i = 0; pool && i < RTE_DIM(retired); i++) {
		if (retired[i])
			continue;
		retired[i] = pool;
		break;
	}
	free_retired();
}

/* The pool of the port, large enough; *old becomes the one to be released once its queues are set up anew. */
static int ensure_pool(uint16_t port, struct rte_mempool **old, struct node_error *err)
{
	struct port *p = &ports[port];
	const unsigned int size = pool_size(p);
	const uint16_t room = data_room(&p->next);
	char name[RTE_MEMPOOL_NAMESIZE];

	*old = NULL;
	if (p->pool && p->pool->size >= size && rte_pktmbuf_data_room_size(p->pool) >= room)
		return 0;
	snprintf(name, sizeof(name), "rx%u.%u", port, p->pool_generation++);
	struct rte_mempool *pool =
	        rte_pktmbuf_pool_create(name, size, POOL_CACHE, 0, room, rte_eth_dev_socket_id(port));

	if (!pool)
		return node_fail(err, p->at, "memory for %u buffers of %u bytes: %s", size, room,
		                 rte_strerror(rte_errno));
	*old = p->pool;
	p->pool = pool;
	return 0;
}

static int setup_device(uint16_t port, struct node_error *err)
{
	struct port *p = &ports[port];
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf = {.rxmode.mtu = p->next.mtu};

	if (rte_eth_dev_info_get(port, &info) < 0)
		return node_fail(err, p->at, "its properties cannot be read");
	conf.rx_adv_conf.rss_conf.rss_hf =
	        info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
	if (p->next.rx_queues > 1 && conf.rx_adv_conf.rss_conf.rss_hf)
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	if (p->next.key_bytes) {
		conf.rx_adv_conf.rss_conf.rss_key = p->next.key;
		conf.rx_adv_conf.rss_conf.rss_key_len = p->next.key_bytes;
	}
	if (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS)
		conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	const int status = rte_eth_dev_configure(port, p->next.rx_queues, p->next.tx_queues, &conf);

	if (status < 0)
		return node_fail(err, p->at, "rte_eth_dev_configure: %s", rte_strerror(-status));
	return 0;
}

static int setup_queues(uint16_t port, struct node_error *err)
{
	const struct port *p = &ports[port];
	const int socket = rte_eth_dev_socket_id(port);
	int status = 0;

	for (uint16_t q = 0; q < p->next.rx_queues && status == 0; q++)
		status =
		        rte_eth_rx_queue_setup(port, q, p->next.rx_desc, (unsigned int)socket, NULL, p->pool);
	if (status < 0)
		return node_fail(err, p->at, "rte_eth_rx_queue_setup: %s", rte_strerror(-status));
	for (uint16_t q = 0; q < p->next.tx_queues && status == 0; q++)
		status = rte_eth_tx_queue_setup(port, q, p->next.tx_desc, (unsigned int)socket, NULL);
	if (status < 0)
		return node_fail(err, p->at, "rte_eth_tx_queue_setup: %s", rte_strerror(-status));
	return 0;
}

static int set_reta(uint16_t port, struct node_error *err)
{
	struct rte_eth_rss_reta_entry64 reta[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE] = {0};
	struct rte_eth_rss_reta_entry64 *entries = reta;
	struct rte_eth_dev_info info;
	const struct port *p = &ports[port];

	if (p->next.rx_queues == 1 || rte_eth_dev_info_get(port, &info) < 0 || info.reta_size == 0)
		return 0;
	const size_t groups = (info.reta_size + RTE_ETH_RETA_GROUP_SIZE - 1u) / RTE_ETH_RETA_GROUP_SIZE;

	if (groups > RTE_DIM(reta))
		entries = calloc(groups, sizeof(*entries));
	if (!entries)
		return node_fail(err, p->at, "out of memory");
	for (uint32_t i = 0; i < info.reta_size; i++) {
		entries[i / RTE_ETH_RETA_GROUP_SIZE].mask |= UINT64_C(1) << (i % RTE_ETH_RETA_GROUP_SIZE);
		entries[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] =
		        (uint16_t)(i % p->next.rx_queues);
	}
	const int status = rte_eth_dev_rss_reta_update(port, entries, info.reta_size);

	if (entries != reta)
		free(entries);
	if (status < 0)
		return node_fail(err, p->at, "rte_eth_dev_rss_reta_update: %s", rte_strerror(-status));
	return 0;
}

static void forget_xstats(struct port *p)
{
	free(p->xstat_names);
	free(p->xstat_zero);
	p->xstat_names = NULL;
	p->xstat_zero = NULL;
	p->xstats = 0;
}

/* Names change with the number of queues only. */
static int learn_xstats(uint16_t port, struct node_error *err)
{
	struct port *p = &ports[port];
	const int n = rte_eth_xstats_get_names(port, NULL, 0);

	forget_xstats(p);
	if (n <= 0)
		return 0;
	p->xstat_names = calloc((size_t)n, sizeof(*p->xstat_names));
	p->xstat_zero = calloc((size_t)n, sizeof(*p->xstat_zero));
	if (!p->xstat_names || !p->xstat_zero ||
	    rte_eth_xstats_get_names(port, p->xstat_names, (unsigned int)n) != n)
		return node_fail(err, p->at, "the names of its extended statistics cannot be read");
	p->xstats = n;
	return 0;
}

static int start_port(uint16_t port, struct node_error *err)
{
	const int status = rte_eth_dev_start(port);

	if (status < 0)
		return node_fail(err, ports[port].at, "rte_eth_dev_start: %s", rte_strerror(-status));
	ports[port].running = true;
	return 0;
}

static int setup_port(uint16_t port, struct node_error *err)
{
	struct port *p = &ports[port];
	struct rte_mempool *old;

	if (ensure_pool(port, &old, err) < 0)
		return -1;
	p->configured = false;
	const int status = setup_device(port, err) || setup_queues(port, err) || start_port(port, err) ||
	                   set_reta(port, err) || learn_xstats(port, err);

	ports_retire_pool(old);
	if (status)
		return -1;
	/* what DUT and generator address to any MAC must arrive */
	if (rte_eth_promiscuous_enable(port) < 0 && rte_eth_promiscuous_get(port) != 1)
		return node_fail(err, p->at, "promiscuous mode is refused");
	p->spec = p->next;
	p->configured = true;
	return 0;
}

static bool must_change(const struct port *p)
{
	return p->wanted && !(p->configured && p->running && same_spec(&p->spec, &p->next) &&
	                      p->pool->size >= pool_size(p));
}

static void stop_unwanted(int *changed)
{
	uint16_t port;

	RTE_ETH_FOREACH_DEV (port) {
		if (!ports[port].running || (ports[port].wanted && !must_change(&ports[port])))
			continue;
		stop_port(port);
		*changed = 1;
	}
}

int ports_configure(json_t *list, const struct ports_held *held_now, struct node_error *err)
{
	uint16_t port;
	int changed = 0;

	held = *held_now;
	if (parse_list(list, err) < 0)
		return -1;
	free_retired();
	stop_unwanted(&changed);
	RTE_ETH_FOREACH_DEV (port) {
		if (!must_change(&ports[port]))
			continue;
		changed = 1;
		if (setup_port(port, err) < 0) {
			stop_port(port);
			return -1;
		}
	}
	return changed;
}

int ports_find(const char *name, const char *where, uint16_t *port, struct node_error *err)
{
	if (rte_eth_dev_get_port_by_name(name, port) < 0)
		return node_fail(err, where, "no port has the name %s", name);
	if (!ports[*port].running)
		return node_fail(err, where, "port %s is not among the configured ports", name);
	return 0;
}

uint16_t ports_rx_queues(uint16_t port)
{
	return ports[port].spec.rx_queues;
}

uint16_t ports_tx_queues(uint16_t port)
{
	return ports[port].spec.tx_queues;
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
	return held.mbufs;
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

	return stride * p->spec.rx_queues * p->spec.rx_desc;
}

json_t *ports_links(void)
{
	json_t *object = json_object();
	char name[RTE_ETH_NAME_MAX_LEN];
	uint16_t port;

	RTE_ETH_FOREACH_DEV (port) {
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

	RTE_ETH_FOREACH_DEV (port) {
		if (ports[port].running)
			json_object_set_new(object, port_name(port, name),
			                    json_integer((json_int_t)posted_bytes(&ports[port])));
	}
	return object;
}

/* values[id] = value for each of p->xstats; false when the driver does not deliver them. */
static bool read_xstats(uint16_t port, uint64_t values[])
{
	const int n = ports[port].xstats;
	struct rte_eth_xstat *xstats = calloc((size_t)n + 1, sizeof(*xstats));
	const bool whole = xstats && n > 0 && rte_eth_xstats_get(port, xstats, (unsigned int)n) == n;

	for (int i = 0; whole && i < n; i++)
		if (xstats[i].id < (uint64_t)n)
			values[xstats[i].id] = xstats[i].value;
	free(xstats);
	return whole;
}

void ports_mark(void)
{
	uint16_t port;

	RTE_ETH_FOREACH_DEV (port) {
		struct port *p = &ports[port];

		if (!p->running)
			continue;
		memset(&p->zero, 0, sizeof(p->zero));
		rte_eth_stats_get(port, &p->zero);
		read_xstats(port, p->xstat_zero);
	}
}

static json_t *stats_json(uint16_t port)
{
	const struct rte_eth_stats *zero = &ports[port].zero;
	struct rte_eth_stats now;
	const int status = rte_eth_stats_get(port, &now);

	if (status < 0)
		return json_pack("{s:s}", "absent", rte_strerror(-status));
#define SINCE(counter) #counter, (json_int_t)(now.counter - zero->counter)
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", SINCE(ipackets), SINCE(opackets), SINCE(ibytes),
	                 SINCE(obytes), SINCE(imissed), SINCE(ierrors), SINCE(oerrors), SINCE(rx_nombuf));
#undef SINCE
}

/* The queue of a per-queue packet counter ("rx_q7_packets"), or -1. */
static int queue_of(const char *name)
{
	unsigned int queue;
	int end = 0;

	if (sscanf(name, "rx_q%u_packets%n", &queue, &end) == 1 && end && name[end] == '\0')
		return (int)queue;
	return -1;
}

static json_t *queue_packets(uint16_t port, const uint64_t values[])
{
	const struct port *p = &ports[port];
	json_t *list = json_array();

	for (uint16_t q = 0; q < p->spec.rx_queues; q++)
		json_array_append_new(list, json_null());
	for (int i = 0; i < p->xstats; i++) {
		const int queue = queue_of(p->xstat_names[i].name);

		if (queue >= 0 && queue < p->spec.rx_queues)
			json_array_set_new(list, (size_t)queue,
			                   json_integer((json_int_t)(values[i] - p->xstat_zero[i])));
	}
	return list;
}

/* Counters that did not move are left out: 1024 queues have thousands of them. */
static json_t *xstats_json(uint16_t port, const uint64_t values[])
{
	const struct port *p = &ports[port];
	json_t *object = json_object();

	for (int i = 0; i < p->xstats; i++)
		if (values[i] != p->xstat_zero[i])
			json_object_set_new(object, p->xstat_names[i].name,
			                    json_integer((json_int_t)(values[i] - p->xstat_zero[i])));
	return object;
}

static json_t *port_json(uint16_t port)
{
	json_t *object = json_pack("{s:o}", "stats", stats_json(port));
	uint64_t *values = calloc((size_t)ports[port].xstats + 1, sizeof(*values));

	if (values && read_xstats(port, values)) {
		json_object_set_new(object, "xstats", xstats_json(port, values));
		json_object_set_new(object, "rx_queue_packets", queue_packets(port, values));
	}
	free(values);
	return object;
}

json_t *ports_report(void)
{
	json_t *object = json_object();
	char name[RTE_ETH_NAME_MAX_LEN];
	uint16_t port;

	RTE_ETH_FOREACH_DEV (port)
		if (ports[port].running)
			json_object_set_new(object, port_name(port, name), port_json(port));
	return object;
}

uint64_t ports_movement(void)
{
	uint64_t frames = 0;
	uint16_t port;

	RTE_ETH_FOREACH_DEV (port) {
		struct rte_eth_stats stats;

		if (ports[port].running && rte_eth_stats_get(port, &stats) == 0)
			frames += stats.ipackets + stats.imissed + stats.opackets;
	}
	return frames;
}

void ports_close(void)
{
	uint16_t port;

	RTE_ETH_FOREACH_DEV (port) {
		stop_port(port);
		forget_xstats(&ports[port]);
		rte_eth_dev_close(port);
	}
}
