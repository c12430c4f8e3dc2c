/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A polling lcore of the DUT: what its loop reads and writes. The main lcore prepares it, the lcore alone touches it while a
 * trial runs; readers of live counters take what they see.
 */
#ifndef POLLER_H
#define POLLER_H

#include <stdbool.h>
#include <stdint.h>
#include <rte_ether.h>
#include <rte_lpm.h>
#include <rte_mbuf.h>
#include <rte_spinlock.h>

#include "accounting.h"
#include "delays.h"
#include "pmu.h"
#include "qwait.h"
#include "rng.h"
#include "series.h"
#include "trial.h"

enum poller_stage { STAGE_WARMUP, STAGE_WINDOW, STAGE_DRAIN, STAGES };

/* What is read at the edges of the window only. */
struct poller_edge {
	struct pmu_reading pmu;
	uint64_t refill_failures;
	uint64_t lost_polls;
	uint64_t sleeps; /* SOURCE_NOTIFIED, SOURCE_WAITING */
	uint64_t stolen; /* SOURCE_NOTIFIED */
	uint64_t vain_wakes;
	long voluntary_switches;
	long involuntary_switches;
	long minor_faults;
};

enum poller_role { POLLER_WORKER, POLLER_DISPATCHER };

/* Where its packets come from. */
enum poller_source {
	SOURCE_RX_QUEUES, /* RX queues that it alone reads */
	SOURCE_LOCKED,    /* RX queues that others read too, one at a time */
	SOURCE_TRYLOCK,   /* the same, but nobody waits */
	SOURCE_COREC,     /* RX queues that others read at the same time */
	SOURCE_NOTIFIED, /* RX queues of which it is told which have packets; it alone reads them, or one lcore at a time */
	SOURCE_WAITING, /* RX queues that it alone reads, all in turn; after empty sweeps it waits */
	SOURCE_COUNTED, /* RX queues that it alone reads, and whose packets it counts by RETA entry */
	SOURCE_RING,    /* a ring that dispatchers fill */
	SOURCE_MADE,    /* nowhere: it makes them */
	POLLER_SOURCES
};

/* SOURCE_WAITING: what ends a wait. */
enum poller_wait {
	WAIT_INTERRUPT, /* a packet: who sends wakes the lcore, which sleeps on an eventfd */
	WAIT_MONITOR,   /* a packet: the lcore is halted on a line that who sends writes */
	WAIT_MONITORS, /* the same on the lines of the next packets of all its queues, which any NIC writes */
	WAIT_RAMP,     /* time, ever more of it */
};

/* The lock of an RX queue that several lcores read. */
struct queue_lock {
	rte_spinlock_t lock;
} __rte_cache_aligned;

struct rte_power_monitor_cond;
struct rte_ring;
struct encryptor;
struct sender;
struct task;
struct tunnel;
struct poller;

typedef void (*poll_loop_fn)(struct poller *poller);

/* Work on n packets; those to be sent are moved to the front and counted in the return value, the rest are freed. */
typedef uint16_t (*process_fn)(struct poller *poller, struct rte_mbuf **packets, uint16_t n);

/* Loops by source, whether packets are delayed, and accounting mode. NULL: there is none for this combination. */
typedef poll_loop_fn loop_table[POLLER_SOURCES][2][ACCOUNTING_MODES];

struct poller {
	/* read in the loop */
	uint16_t rx_port;
	uint16_t first_queue;
	uint16_t end_queue;
	uint16_t queue_step;
	uint16_t queues;
	uint16_t sweep_begin; /* queues that others read too: the one that a sweep begins at; it wraps */
	uint16_t burst;
	uint16_t tx_port;
	uint16_t tx_queue;
	struct rte_ring *ring;    /* SOURCE_RING: to take from; dispatcher: to put into */
	struct queue_lock *locks; /* SOURCE_LOCKED, SOURCE_TRYLOCK: by queue */
	struct sender *sender;    /* SOURCE_MADE */
	process_fn process;       /* called_loops */
	bool resizes;             /* called_loops: it changes the size of packets */
	uint64_t locks_missed;    /* SOURCE_TRYLOCK: polls that found the lock taken; grows only */
	uint64_t aside_cycles;    /* waited since the trial began, on purpose or for locks; grows only */
	int64_t owed_cycles;      /* delay drawn and not waited for yet; negative: waited too long */
	int64_t wait_cost_cycles; /* calibrated: what a wait costs beyond the time between its stamps */
	struct delay_streams delays;
	struct rte_lpm *lpm;
	uint32_t routes;  /* in lpm */
	uint32_t lookups; /* of a packet in lpm */
	bool checksum;    /* of UDP, made anew */
	const struct tunnel *tunnel;
	struct encryptor *encryptor;
	struct task *task;            /* of a workload that is one of HyperPlane's tasks */
	struct rte_ether_hdr rewrite; /* MAC addresses of routed packets */
	struct account *account;      /* of the present stage */
	int32_t packets_left;         /* packets until the TSC is looked at, besides the sweeps */
	uint32_t busy_sweep;          /* value of the sweep countdown at the last packet */
	uint32_t sweep_span;          /* by how much poll numbers grow in a sweep: end_queue - first_queue */
	uint32_t next_number;         /* of the poll behind the last visit */

	/* read and written by events (every 2^4..2^16 sweeps) and sampled sweeps */
	const struct trial *trial;
	bool no_drain;           /* leave the loop at the end of the window: calibration and self-test */
	uint32_t planned_sweeps; /* sweeps from the last event to the next */
	uint32_t steady_sweeps;  /* sweeps that take about EVENT_CYCLES at present */
	int32_t packets_per_event;
	uint64_t event_tsc;        /* end of the last event or sampled sweep */
	uint64_t event_packets;    /* received by then */
	uint64_t event_aside;      /* aside_cycles by then */
	uint64_t sample_countdown; /* sweeps until the next sampled sweep */
	uint32_t sample_every;
	bool sample_due;
	bool loaded;                     /* packets took more than half of the time since the last event */
	uint32_t event_polls;            /* polls that take about EVENT_CYCLES at present */
	uint32_t lead_polls;             /* polls that take about LEAD_CYCLES */
	uint32_t timed_interval_lengths; /* slices have 2^0 ... 2^(timed_interval_lengths - 1) polls */
	double poll_cycles; /* mean of an empty poll and of a packet so far: what so many are expected to take */
	double packet_cycles;
	uint64_t block_cycles;        /* of the window: see ACCOUNT_BLOCKS */
	uint64_t interruption_cycles; /* ACCOUNT_INTERRUPTION_NS */
	enum poller_stage stage;
	struct series series; /* of the window */
	struct rng rng;

	/* mode full */
	uint64_t last_stamp;
	uint64_t *busy_poll_stamps; /* by queue */

	/* set up by the main lcore */
	unsigned int lcore;
	enum poller_role role;
	enum poller_source source;
	poll_loop_fn loop;
	enum accounting accounting;
	uint32_t longest;
	double stamp_cycles;           /* calibrated */
	double empty_poll_cycles;      /* calibrated in its loop; 0: the port was not silent */
	double overlapped_poll_cycles; /* the same in a bare loop of polls */
	struct account accounts[STAGES];
	struct poller_edge edges[2]; /* begin and end of the window */
	struct pmu pmu;
	bool pmu_opened;
	const uint64_t **refill_counters; /* by queue of this poller */
	bool refill_counted;              /* the driver has these counters */
	const uint64_t **race_counters;   /* SOURCE_COREC: polls that lost their claim, by queue */

	/*
	 * SOURCE_NOTIFIED: queue q of the set is RX queue first_queue + q * queue_step. Others may have waiters of it, too. SOURCE_WAITING: a
	 * set of one queue, which stands for all of them; WAIT_MONITORS, WAIT_RAMP: no set.
	 */
	struct qwait_waiter waiter;
	struct qwait_waiter *
	        victims; /* of the sets that it may steal from: of the next poller's set, the one after ... */
	uint32_t nb_victims;
	bool alone;          /* nobody else has a waiter of its set */
	uint64_t stolen;     /* turns of queues of other sets; grows only */
	uint64_t vain_wakes; /* waits that a ring ended whose queue somebody else had by then; grows only */

	/* SOURCE_WAITING */
	enum poller_wait wait;
	uint64_t wait_after_cycles;           /* without a packet */
	uint32_t quiet_sweeps;                /* without a packet, so far */
	uint32_t quiet_limit;                 /* the lcore waits at so many */
	uint64_t nap_ns;                      /* WAIT_RAMP: the last one */
	struct rte_power_monitor_cond *lines; /* WAIT_MONITORS: by queue of this poller */

	/* SOURCE_COUNTED: packets received so far by RETA entry; this lcore alone writes them, whoever rebalances reads them */
	uint64_t *entry_packets;
	uint32_t entry_mask;
} __rte_cache_aligned;

/*
 * Sweeps of so many queues and more are polled range by range, so that a slice can begin and end within one; shorter ones,
 * where a call for each would be felt, many at once.
 */
#define POLLER_RANGE_QUEUES 64
static inline bool poller_by_range(const struct poller *p)
{
	return p->queues >= POLLER_RANGE_QUEUES;
}

/* Several lcores read its RX queues by themselves. */
static inline bool source_is_shared(enum poller_source source)
{
	return source == SOURCE_LOCKED || source == SOURCE_TRYLOCK || source == SOURCE_COREC;
}

/* It alone reads RX queues. */
static inline bool source_owns_rx_queues(enum poller_source source)
{
	return source == SOURCE_RX_QUEUES || source == SOURCE_NOTIFIED || source == SOURCE_WAITING ||
	       source == SOURCE_COUNTED;
}

/* Some of its RX queues may be read by another lcore, too. */
static inline bool poller_shares_queues(const struct poller *p)
{
	return source_is_shared(p->source) || (p->source == SOURCE_NOTIFIED && !p->alone);
}

static inline bool source_reads_rx_queues(enum poller_source source)
{
	return source_owns_rx_queues(source) || source_is_shared(source);
}

/* A poll of it may return nothing because another lcore was there. */
static inline bool source_loses_polls(enum poller_source source)
{
	return source == SOURCE_TRYLOCK || source == SOURCE_COREC;
}

/* Polls that a sweep makes, or a turn of a loop that makes no sweeps. */
static inline uint32_t poller_polls_at_once(const struct poller *p)
{
	return p->source == SOURCE_NOTIFIED ? 1 : p->queues;
}

/* Polls that returned nothing, by `a`, one of its accounts. */
static inline uint64_t poller_empty_polls(const struct poller *p, const struct account *a)
{
	return account_empty_polls(a, p->source == SOURCE_NOTIFIED ? 0 : p->queues);
}

/* Polls that were lost so far. Other lcores write none of what is read. */
static inline uint64_t poller_lost_polls(const struct poller *p)
{
	uint64_t lost = p->locks_missed;

	for (uint16_t i = 0; p->source == SOURCE_COREC && i < p->queues; i++)
		lost += *p->race_counters[i];
	return lost;
}

/* Slices are multiples of so many polls. */
static inline uint32_t poll_unit(const struct poller *p)
{
	return poller_by_range(p) || p->queues == 0 ? 1 : p->queues;
}

/* A poller for this lcore, on its socket, with nothing assigned; NULL when out of memory. */
struct poller *poller_new(unsigned int lcore);

/* NULL is allowed. */
void poller_free(struct poller *poller);

#endif
