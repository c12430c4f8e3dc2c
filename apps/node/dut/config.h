/* SPDX-License-Identifier: BSD-3-Clause */
/* The "dut" object of a `configure` request (node-protocol.md), first parsed alone, then resolved with the ports. */
#ifndef DUT_CONFIG_H
#define DUT_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include <rte_lcore.h>

#include "delays.h"
#include "handoff.h"
#include "loop/poller.h"
#include "node_error.h"
#include "ports/plan.h"
#include "workload/workload.h"

enum organisation { SCALE_OUT, SCALE_UP, LOCKED, TRYLOCK, COREC, REBALANCED, ORGANISATIONS };
/* How workers learn of packets. All but SPIN and QWAIT poll all queues, and wait after sweeps without a packet (loop/quiet.h). */
enum notification {
	NOTIFICATION_SPIN,
	NOTIFICATION_QWAIT,
	NOTIFICATION_INTERRUPT,     /* waits after one empty sweep */
	NOTIFICATION_ADAPTIVE,      /* waits after wait_after_ns of empty sweeps */
	NOTIFICATION_MONITOR,       /* as INTERRUPT, but halted instead of asleep */
	NOTIFICATION_MONITOR_MULTI, /* the same on one line per queue, so that the sender rings no doorbell */
	NOTIFICATION_SLEEP_RAMP,    /* as INTERRUPT, but for a time */
	NOTIFICATION_PAUSE          /* the same, awake */
};

/* Return whether waits end by time alone, so that no packet has to end them. */
static inline bool notification_is_timed(enum notification notification)
{
	return notification == NOTIFICATION_SLEEP_RAMP || notification == NOTIFICATION_PAUSE;
}

/* NOTIFICATION_QWAIT: owners of ready sets. */
enum ready_set_sharing {
	SHARING_OWN,     /* each worker has a set of queues that it alone reads */
	SHARING_ALL,     /* one set for all workers and queues */
	SHARING_NUMA,    /* one set per NUMA node; its workers share its part of the queues */
	SHARING_STEALING /* each worker has a set, and takes from those of others when it is idle */
};

enum tx_pool { TX_POOL_PER_CORE, TX_POOL_SHARED };

extern const char *const handoff_sync_names[]; /* by enum handoff_sync */

struct lcore_list {
	unsigned int lcores[RTE_MAX_LCORE];
	unsigned int n;
};

#define QUEUE_WEIGHTS_MAX 64
#define QUEUE_WEIGHT_MAX  1000

struct dut_config {
	struct lcore_list workers;
	struct lcore_list dispatchers;
	const char *rx_name; /* valid as long as the request; NULL: workload tx */
	const char *tx_name; /* NULL: none */
	uint16_t rx_port;    /* resolved; NO_PORT without a name */
	uint16_t tx_port;
	enum organisation organisation;
	enum handoff_sync ring_sync;
	enum notification notification;
	uint64_t wait_after_ns;       /* NOTIFICATION_ADAPTIVE; NOTIFICATION_QWAIT with idle sleep */
	uint64_t rebalance_period_ns; /* REBALANCED */
	double rebalance_threshold;   /* REBALANCED: tolerated excess of the fullest queue over the mean */
	unsigned int service_order;   /* enum qwait_policy */
	uint32_t queue_weights[QUEUE_WEIGHTS_MAX]; /* QWAIT_WEIGHTED: RX queue q has weight q % nb_weights */
	uint32_t nb_weights;
	unsigned int ready_set; /* enum qwait_ready_set */
	unsigned int idle;      /* enum qwait_idle */
	unsigned int sharing;   /* enum ready_set_sharing */
	uint32_t ring_slots;
	unsigned int workload; /* index of workloads[] */
	enum accounting accounting;
	struct workload_spec work; /* as far as the request says */
	unsigned int tx_pool;      /* enum tx_pool */
	uint16_t burst;
	uint32_t sample_every;
	uint32_t longest;
	uint32_t extra_cycles;
	bool has_service; /* true also if all added delays are 0 */
	bool has_hiccup;
	enum poller_source source; /* source of the workers' packets; follows from the above */
	struct delays_config delays;
};

/* Read `object`, and check what it alone determines. Returns 0, or -1 with err (where begins with "dut"). */
int dut_config_parse(json_t *object, struct dut_config *config, struct node_error *err);

/* Find the ports among those of `plan`, check what they need, and record in `plan` what the rings hold. Returns as above. */
int dut_config_resolve(struct dut_config *config, struct ports_plan *plan, struct node_error *err);

bool dut_config_has_lcore(const struct dut_config *config, unsigned int lcore);

/* Workers of one group share a part of the RX queues (NOTIFICATION_QWAIT). */
unsigned int dut_config_groups(const struct dut_config *config);
unsigned int dut_config_group(const struct dut_config *config, unsigned int worker);

/* Return the name of its notification. */
const char *dut_config_notification(const struct dut_config *config);

/* Return whether packets are delayed on purpose. */
bool dut_config_delays(const struct dut_config *config);

/* Return the function that called_loops call. */
process_fn dut_config_process(const struct dut_config *config);

/* Return the loop of its workers; NULL: no loop for this combination. */
poll_loop_fn dut_config_loop(const struct dut_config *config);

/* Return the number of rings between dispatchers and workers. */
unsigned int dut_config_rings(const struct dut_config *config);

#endif
