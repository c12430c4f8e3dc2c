/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A polling lcore of the DUT: what its loop reads and writes. The main lcore prepares it, and only the lcore itself
 * writes it during a trial. Readers of live counters see whatever is there.
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

/* Read only at the edges of the window. */
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

/* Where the packets of a poller come from. */
enum poller_source {
	SOURCE_RX_QUEUES, /* RX queues that no other lcore reads */
	SOURCE_LOCKED,    /* RX queues that several lcores read, one at a time */
	SOURCE_TRYLOCK,   /* as SOURCE_LOCKED, but a queue whose lock is taken is skipped */
	SOURCE_COREC,     /* RX queues that several lcores read at the same time */
	SOURCE_NOTIFIED,  /* RX queues whose doorbells notify the lcore; one lcore at a time reads them */
	SOURCE_WAITING,   /* RX queues that no other lcore reads; the lcore waits after empty sweeps */
	SOURCE_COUNTED,   /* RX queues that no other lcore reads, with packets counted by RETA entry */
	SOURCE_RING,      /* a ring that dispatchers fill */
	SOURCE_MADE,      /* none: the poller makes packets */
	POLLER_SOURCES
};

/* SOURCE_WAITING: what ends a wait. */
enum poller_wait {
	WAIT_INTERRUPT, /* a packet: the sender wakes the lcore, which sleeps on an eventfd */
	WAIT_MONITOR,   /* a packet: the sender writes the line on which the lcore is halted */
	WAIT_MONITORS,  /* a packet: any NIC writes one of the lines of the next packets of all queues */
	WAIT_RAMP,      /* time: each wait is longer than the one before */
	WAIT_PAUSE,     /* time: PAUSE instructions for PAUSE_NS */
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

/* Process n packets. Move those to be sent to the front and return their number; free the others. */
typedef uint16_t (*process_fn)(struct poller *poller, struct rte_mbuf **packets, uint16_t n);

/* Loops by source, whether packets are delayed, and accounting mode. NULL: no loop for this combination. */
typedef poll_loop_fn loop_table[POLLER_SOURCES][2][ACCOUNTING_MODES];

struct poller {
	/* read in the loop */
	uint16_t rx_port;
	uint16_t first_queue;
	uint16_t end_queue;
	uint16_t queue_step;
	uint16_t queues;
	uint16_t sweep_begin; /* shared queues: the first queue of this lcore's sweep */
	uint16_t burst;
	uint16_t tx_port;
	uint16_t tx_queue;
	struct rte_ring *ring;    /* SOURCE_RING: source; dispatcher: destination */
	struct queue_lock *locks; /* SOURCE_LOCKED, SOURCE_TRYLOCK: by queue */
	struct sender *sender;    /* SOURCE_MADE */
	process_fn process;       /* called_loops */
	bool resizes;             /* called_loops: `process` changes the size of packets */
	uint64_t locks_missed;    /* SOURCE_TRYLOCK: polls that found the lock taken; only grows */
	uint64_t aside_cycles;    /* waited since the trial began, on purpose or for locks; only grows */
	int64_t owed_cycles;      /* delay that was drawn and not yet waited for; negative: waited too long */
	int64_t wait_cost_cycles; /* calibrated: cost of a wait beyond the time between its stamps */
	struct delay_streams delays;
	struct rte_lpm *lpm;
	uint32_t routes;  /* in lpm */
	uint32_t lookups; /* of one packet in lpm */
	bool checksum;    /* compute the UDP checksum again */
	const struct tunnel *tunnel;
	struct encryptor *encryptor;
	struct task *task;            /* of HyperPlane's task workloads */
	struct rte_ether_hdr rewrite; /* MAC addresses of routed packets */
	struct account *account;      /* of the present stage */
	int32_t packets_left;         /* packets until the next read of the TSC, besides the sweeps */
	uint32_t busy_sweep;          /* value of the sweep countdown at the last packet */
	uint32_t sweep_span;          /* growth of poll numbers per sweep: end_queue - first_queue */
	uint32_t next_number;         /* number of the poll after the last busy poll */

	/* read and written by events (every 2^4 to 2^16 sweeps) and sampled sweeps */
	const struct trial *trial;
	bool no_drain;           /* leave the loop at the end of the window (calibration, self-test) */
	uint32_t planned_sweeps; /* sweeps from the last event to the next */
	uint32_t steady_sweeps;  /* sweeps that take about EVENT_CYCLES now */
	int32_t packets_per_event;
	uint64_t event_tsc;        /* end of the last event or sampled sweep */
	uint64_t event_packets;    /* received up to event_tsc */
	uint64_t event_aside;      /* aside_cycles at event_tsc */
	uint64_t sample_countdown; /* sweeps until the next sampled sweep */
	uint32_t sample_every;
	bool sample_due;
	bool loaded;          /* packets took more than half of the time since the last event */
	uint32_t event_polls; /* polls that take about EVENT_CYCLES now */
	uint32_t lead_polls;  /* polls that take about LEAD_CYCLES */
	uint32_t
	        timed_interval_lengths; /* timed intervals have 2^0 ... 2^(timed_interval_lengths - 1) polls */
	double poll_cycles;             /* running means of an empty poll and of a packet */
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
	const uint64_t **race_counters;   /* SOURCE_COREC: polls that lost their reservation, by queue */

	/*
	 * SOURCE_NOTIFIED: queue q of the set is RX queue first_queue + q * queue_step; several pollers can have
	 * waiters of one set. SOURCE_WAITING: a set of one queue that stands for all of them. WAIT_MONITORS and
	 * WAIT_RAMP, WAIT_PAUSE: no set.
	 */
	struct qwait_waiter waiter;
	struct qwait_waiter *
	        victims; /* waiters of the sets to steal from: the next poller's set, the one after it, ... */
	uint32_t nb_victims;
	bool alone;          /* no other poller has a waiter of this set */
	uint64_t stolen;     /* queues taken from other sets; only grows */
	uint64_t vain_wakes; /* wake-ups whose queue another poller had taken; only grows */

	/* SOURCE_WAITING */
	enum poller_wait wait;
	uint64_t wait_after_cycles;           /* without a packet */
	uint32_t quiet_sweeps;                /* without a packet so far */
	uint32_t quiet_limit;                 /* the lcore waits after this many */
	uint64_t nap_ns;                      /* WAIT_RAMP: length of the last wait */
	struct rte_power_monitor_cond *lines; /* WAIT_MONITORS: by queue of this poller */

	/*
	 * SOURCE_COUNTED: packets received so far by RETA entry, written by this lcore only and read by the
	 * rebalancer
	 */
	uint64_t *entry_packets;
	uint32_t entry_mask;
} __rte_cache_aligned;

/*
 * With this many queues or more, sweeps are polled range by range, so that a timed interval can begin and end inside
 * one. In shorter sweeps the calls would cost too much, so many sweeps run at once.
 */
#define POLLER_RANGE_QUEUES 64
static inline bool poller_by_range(const struct poller *p)
{
	return p->queues >= POLLER_RANGE_QUEUES;
}

/* Return whether several lcores poll the same RX queues. */
static inline bool source_is_shared(enum poller_source source)
{
	return source == SOURCE_LOCKED || source == SOURCE_TRYLOCK || source == SOURCE_COREC;
}

/* Return whether this lcore alone reads its RX queues. */
static inline bool source_owns_rx_queues(enum poller_source source)
{
	return source == SOURCE_RX_QUEUES || source == SOURCE_NOTIFIED || source == SOURCE_WAITING ||
	       source == SOURCE_COUNTED;
}

/* Return whether another lcore may read some of its RX queues. */
static inline bool poller_shares_queues(const struct poller *p)
{
	return source_is_shared(p->source) || (p->source == SOURCE_NOTIFIED && !p->alone);
}

static inline bool source_reads_rx_queues(enum poller_source source)
{
	return source_owns_rx_queues(source) || source_is_shared(source);
}

/* Return whether a poll may be empty because another lcore was there. */
static inline bool source_loses_polls(enum poller_source source)
{
	return source == SOURCE_TRYLOCK || source == SOURCE_COREC;
}

/* Polls per sweep, or per iteration of a notified loop. */
static inline uint32_t poller_polls_at_once(const struct poller *p)
{
	return p->source == SOURCE_NOTIFIED ? 1 : p->queues;
}

/* Polls that returned nothing, by `a`, one of the poller's accounts. */
static inline uint64_t poller_empty_polls(const struct poller *p, const struct account *a)
{
	return account_empty_polls(a, p->source == SOURCE_NOTIFIED ? 0 : p->queues);
}

/* Polls lost so far. No other lcore writes these counters. */
static inline uint64_t poller_lost_polls(const struct poller *p)
{
	uint64_t lost = p->locks_missed;

	for (uint16_t i = 0; p->source == SOURCE_COREC && i < p->queues; i++)
		lost += *p->race_counters[i];
	return lost;
}

/* Timed intervals are multiples of this many polls. */
static inline uint32_t poll_unit(const struct poller *p)
{
	return poller_by_range(p) || p->queues == 0 ? 1 : p->queues;
}

/* Return a poller without queues for this lcore, in memory of its NUMA node; NULL when out of memory. */
struct poller *poller_new(unsigned int lcore);

/* NULL is allowed. */
void poller_free(struct poller *poller);

#endif
