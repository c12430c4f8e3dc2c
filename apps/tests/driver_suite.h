/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of net_crossover through the public ethdev API. A case runs on a pair of its own, made with the case's device
 * arguments; afterwards the pair is removed and every mbuf must be back in its pool.
 */
#ifndef DRIVER_SUITE_H
#define DRIVER_SUITE_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define PAIR_NAME   "net_crossover7"
#define POOL_MBUFS  8191
#define FRAME_BYTES 60 /* in the mbuf, without FCS */
#define BURST       32
#define LIMIT_S     60
#define RETA_SIZE   512

/* DPDK's own RTE_ETH_RSS_UDP and the like include IPv6 extension headers, which the driver does not look into. */
#define RSS_UDP (RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP)
#define RSS_ALL                                                                                              \
	(RSS_UDP | RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_NONFRAG_IPV6_TCP | RTE_ETH_RSS_IPV4 |          \
	 RTE_ETH_RSS_FRAG_IPV4 | RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_FRAG_IPV6)

struct driver_case {
	const char *name;
	void (*run)(void);
	const char *devargs[4]; /* runs with each of these; ends with NULL */
};

#define CASE(run, ...)                                                                                       \
	{                                                                                                    \
		#run, run,                                                                                   \
		{                                                                                            \
			__VA_ARGS__                                                                          \
		}                                                                                            \
	}

/* A list of cases; ends with a NULL name. */
extern const struct driver_case driver_configure_cases[], driver_corec_cases[], driver_describe_cases[],
        driver_devargs_cases[], driver_external_cases[], driver_feed_cases[], driver_filter_cases[],
        driver_link_cases[], driver_notify_cases[], driver_queue_cases[], driver_rss_cases[],
        driver_stats_cases[], driver_swap_cases[], driver_threads_cases[], driver_traffic_cases[];

/* The pair under test, and two pools: buffers of 2048 data bytes, and small ones of 256. */
extern uint16_t port_a, port_b;
extern struct rte_mempool *pool, *small_pool, *other_pool;

/* Prints what is wrong and ends the case. On the main lcore only. */
_Noreturn void driver_fail(const char *file, int line, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

#define CHECK(condition, ...)                                                                                \
	do {                                                                                                 \
		if (!(condition))                                                                            \
			driver_fail(__FILE__, __LINE__, #condition "; " __VA_ARGS__);                        \
	} while (0)
#define CHECK_EQUAL(left, right)                                                                             \
	do {                                                                                                 \
		long long left_ = (long long)(left), right_ = (long long)(right);                            \
		if (left_ != right_)                                                                         \
			driver_fail(__FILE__, __LINE__, "%s is %lld, %s is %lld", #left, left_, #right,      \
			            right_);                                                                 \
	} while (0)

/* Checks what a call returns, and words of its log. */
#define CHECK_LOGGED(call, expected, words)                                                                  \
	do {                                                                                                 \
		log_begin();                                                                                 \
		int ret_ = (call);                                                                           \
		const char *text_ = log_end();                                                               \
		if (ret_ != (expected) || strstr(text_, words) == NULL)                                      \
			driver_fail(__FILE__, __LINE__, "%s is %d; log: %s", #call, ret_, text_);            \
	} while (0)

/* How to set up a port; zero means: 1 queue, 512 descriptors, `pool`, MTU 1500. */
struct port_setup {
	uint16_t rx_queues, tx_queues, rx_desc, tx_desc, mtu;
	uint64_t rx_offloads, tx_offloads, rss_types;
	struct rte_mempool *rx_pool;
	uint16_t rx_free_thresh, tx_free_thresh;
	bool rx_deferred, tx_deferred, lsc, leave_stopped;
};

/* 0 or what ethdev returned. */
int port_up(uint16_t port, const struct port_setup *setup);
/* Both ports, which may be up already, with their own set-up and promiscuous, as most cases want it. */
void pair_up(const struct port_setup *a, const struct port_setup *b);
/* Writes all entries of a RETA of RETA_SIZE; 0 or the error. */
int steer_all(uint16_t port, uint16_t queue);
/* Removes and makes the pair again with other device arguments; 0 or the error. */
int pair_make(const char *devargs);
void pair_remove(void);

/* An Ethernet/IPv4/UDP frame of `bytes` for flow `flow`, payload filled with a pattern of `flow`; NULL: no mbuf. */
struct rte_mbuf *frame_make(struct rte_mempool *from, uint32_t bytes, uint32_t flow);
/* Returns whether a received packet, however segmented, holds just that frame. */
bool frame_is(const struct rte_mbuf *m, uint32_t bytes, uint32_t flow);
/* Returns whether a received frame has right Ethernet, IPv4 and UDP headers, and is for the port that received it. */
bool frame_is_udp(const struct rte_mbuf *m, uint32_t bytes);
/* Cuts a frame into segments of at most `bytes` (the first takes `first`). */
struct rte_mbuf *frame_cut(const struct rte_mbuf *whole, uint32_t first, uint32_t bytes);

/* Sends `count` frames of one size with flows 0, 1, ... on a queue; false if not all were taken. */
bool send_frames(uint16_t port, uint16_t queue, unsigned int count, uint32_t bytes);
/* Sends one mbuf; false if it was not taken (then it is freed). */
bool send_one(uint16_t port, uint16_t queue, struct rte_mbuf *m);
/* Polls until nothing comes; frees what came and returns how many. */
unsigned int receive_all(uint16_t port, uint16_t queue);
/* One packet or NULL. */
struct rte_mbuf *receive_one(uint16_t port, uint16_t queue);
/* One packet, or the case fails. */
struct rte_mbuf *must_receive(uint16_t port, uint16_t queue);
/* Checks that the next packet is this frame, in so many segments, and frees it. */
void expect_frame(uint16_t port, uint16_t queue, uint32_t bytes, uint32_t flow, uint16_t segments);

/* RTE_ETH_LINK_UP or RTE_ETH_LINK_DOWN, with the speed that belongs to it. */
bool link_is(uint16_t port, int status);

struct rte_eth_stats stats_of(uint16_t port);
/* Value of an extended statistic; UINT64_MAX if there is none of that name. */
uint64_t xstat_of(uint16_t port, const char *name);

/* Fills a frame of FRAME_BYTES with its number. */
void number_frame(struct rte_mbuf *m, uint32_t number);
/* UINT32_MAX: the frame is damaged. */
uint32_t number_of(const struct rte_mbuf *m);
/* Sends frames with the numbers from `from` on, until `count` are sent, stop_lcores is set, or LIMIT_S is over; returns how many. */
uint32_t send_numbered(uint16_t port, uint16_t queue, uint32_t from, uint32_t count);

/* Takes all mbufs out of a pool; `taken` has room for POOL_MBUFS. Returns how many. */
unsigned int pool_drain(struct rte_mempool *from, struct rte_mbuf **taken);

/* join_lcores() sets this to 1 while it waits for the other lcores; it is called when a case ends, too. */
extern uint32_t stop_lcores;
void join_lcores(void);

static inline bool lcores_stop(void)
{
	return __atomic_load_n(&stop_lcores, __ATOMIC_RELAXED) != 0;
}

/* Collects the log of DPDK until log_end(), which returns it (valid until the next log_begin). */
void log_begin(void);
const char *log_end(void);

#endif
