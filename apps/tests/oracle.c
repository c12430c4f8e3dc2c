/* SPDX-License-Identifier: BSD-3-Clause */
#include "oracle.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pause.h>

#include "packets.h"
#include "rss.h"
#include "clock.h"
#include "dut/dut.h"
#include "fields.h"
#include "gen/gen.h"
#include "gen/target.h"
#include "lcore.h"
#include "loop/loop.h"
#include "ports/ports.h"

#define POLLS_MAX           (1u << 20)
#define PASSES_MAX          100000
#define WORK_MAX            100000
#define PASS_POLLS          4096
#define TIMED_INTERVALS_MAX 65536
#define FRAME               64 /* bytes with FCS */
#define TRIES               1000000
#define STEPS_TIMED         2000
#define STEP_ROUNDS         100

struct entry {
	uint16_t queue;
	uint16_t burst; /* 0: the queue is empty */
};

/* Kinds of passes, which alternate: all polls of the script, the busy ones, the empty ones. */
enum kind { KIND_ALL, KIND_BUSY, KIND_EMPTY, KINDS };

static const char *const kind_names[KINDS] = {"all", "busy", "empty"};

/*
 * The poller's, the filler's and the common variables lie on separate lines (two, because processors fetch pairs): a poll must
 * not wait for a line that the filler has just read.
 */
#define OF_ITS_OWN __rte_aligned(2 * RTE_CACHE_LINE_SIZE)

struct script {
	struct entry *entries[KINDS];
	uint32_t lengths[KINDS];
	uint64_t packets;        /* of all polls */
	uint32_t chunks;         /* runs of the script per pass: no timed interval is longer than one */
	uint32_t passes;         /* of each kind */
	uint32_t queues;         /* that the script polls */
	uint64_t *cycles[KINDS]; /* of each pass, without time set aside and without interruptions */
	double *step_cycles;     /* of the chain, timed after each pass with all polls */
	uint64_t work_cycles;    /* per packet */
	struct trial trial;
	unsigned int filler;
	uint16_t tx_port;
	struct rte_mempool *pool;
	struct packet_template template;
	struct packet_flow flows[RSS_QUEUES_MAX];
	/* the poller's variables for the present pass */
	const struct entry *next OF_ITS_OWN;
	const struct entry *end;
	enum kind kind;
	uint64_t begin_tsc;
	uint64_t begin_aside;
	uint64_t begin_interrupted;
	uint64_t polls; /* of all completed chunks */
	uint32_t chunks_left;
	uint32_t passed; /* of all kinds */
	uint32_t steps;  /* of the chain; together they take as long as the work */
	uint64_t chain;
	bool over_polling; /* nothing is polled any more */
	/* common variables */
	_Atomic(uint32_t) wanted OF_ITS_OWN;
	_Atomic(uint32_t) filled;
	_Atomic(bool) over;
	bool stuck; /* a ring was full */
};

static struct script script;

/* The DUT's account is that of the passes with all polls; the account of the others is not read. */
static void begin_pass(struct poller *p, enum kind kind)
{
	const uint64_t since_event = p->account->rx_packets - p->event_packets;

	script.kind = kind;
	script.end = script.entries[kind] + script.lengths[kind];
	/* one more, untimed: in a steady run of empty polls each finds its queue's head where the sweep before left it */
	script.chunks_left = script.chunks + (kind == KIND_EMPTY);
	p->account = &p->accounts[kind == KIND_ALL ? STAGE_WINDOW : STAGE_WARMUP];
	/* the interval to the next event began in the pass before, and contains its packets */
	p->event_packets = p->account->rx_packets - since_event;
}

static void begin_timing(struct poller *p, uint64_t now)
{
	script.begin_tsc = now;
	script.begin_aside = p->aside_cycles;
	script.begin_interrupted = p->account->interrupted_cycles;
	p->block_cycles = (script.begin_tsc - p->account->first_tsc) / (script.passed + 1) *
	                          (KINDS * script.passes / ACCOUNT_BLOCKS + 1) +
	                  1;
}

/* Set an interruption since the last event aside in the pass where it was: the next event can lie in another pass. */
static void set_interruption_aside(struct poller *p, uint64_t now)
{
	const uint64_t sweeps = p->accounts[STAGE_WARMUP].sweeps + p->accounts[STAGE_WINDOW].sweeps;
	const uint64_t cycles = now - p->event_tsc - (p->aside_cycles - p->event_aside);

	set_aside(p, poll_interruption(p, script.polls - sweeps * poller_polls_at_once(p),
	                               p->account->rx_packets - p->event_packets, cycles));
}

static void have_filled(void)
{
	const uint32_t wanted = atomic_load(&script.wanted) + 1;

	atomic_store(&script.wanted, wanted);
	while (atomic_load(&script.filled) != wanted)
		rte_pause();
}

/* A chain of dependent operations, which uses the core as work does. */
static __rte_always_inline uint64_t chain_on(uint64_t x, uint32_t steps)
{
	for (uint32_t s = 0; s < steps; s++) {
		x = x * UINT64_C(6364136223846793005) + 1;
		__asm__ volatile("" : "+r"(x));
	}
	return x;
}

/* TSC cycles of a step. They depend on the processor, and on what its clock does at the moment. */
static double time_steps(const struct poller *p)
{
	const uint64_t begin = cycles_stamp();

	script.chain = chain_on(script.chain, STEPS_TIMED);
	return ((double)(cycles_stamp() - begin) - p->stamp_cycles) / STEPS_TIMED;
}

static double least_step_cycles(const struct poller *p)
{
	double least = time_steps(p);

	for (int i = 1; i < STEP_ROUNDS; i++)
		least = RTE_MIN(least, time_steps(p));
	return least;
}

/* End a pass and begin the next one that has polls. */
static void next_pass(struct poller *p, uint64_t now)
{
	if (script.begin_tsc && script.kind == KIND_ALL)
		script.step_cycles[script.passed / KINDS] = time_steps(p);
	if (script.begin_tsc)
		script.cycles[script.kind][script.passed++ / KINDS] =
		        now - script.begin_tsc - (p->aside_cycles - script.begin_aside) -
		        (p->account->interrupted_cycles - script.begin_interrupted);
	while (script.passed < KINDS * script.passes && script.lengths[script.passed % KINDS] == 0)
		script.passed++;
	if (script.passed == KINDS * script.passes || script.stuck) {
		p->account = &p->accounts[STAGE_WINDOW];
		script.trial.end_tsc = now;
		script.over_polling = true;
		return;
	}
	begin_pass(p, (enum kind)(script.passed % KINDS));
}

/* End a chunk: let the rings be filled for the next one, and set that time aside. */
static __rte_noinline void next_chunk(struct poller *p)
{
	const uint64_t now = cycles_stamp();

	if (script.next)
		script.polls += script.lengths[script.kind];
	else /* the first packets are no interruption: their work is known */
		p->packet_cycles += (double)script.work_cycles;
	if (script.chunks_left == script.chunks || script.chunks_left == 0)
		set_interruption_aside(p, now);
	if (script.chunks_left == 0)
		next_pass(p, now);
	if (script.over_polling)
		return;
	if (script.chunks_left == script.chunks)
		begin_timing(p, now);
	script.chunks_left--;
	script.next = script.entries[script.kind];
	if (script.kind != KIND_EMPTY)
		have_filled();
	set_aside(p, cycles_stamp() - now);
}

static __rte_always_inline uint16_t receive_scripted(struct poller *p, uint16_t queue,
                                                     struct rte_mbuf **packets)
{
	RTE_SET_USED(queue);
	if (unlikely(script.next == script.end)) {
		if (!script.over_polling)
			next_chunk(p);
		if (script.over_polling)
			return 0;
	}
	const struct entry entry = *script.next++;

	return rte_eth_rx_burst(p->rx_port, entry.queue, packets, entry.burst ? entry.burst : p->burst);
}

/* The chain continues through all packets. */
static __rte_always_inline uint16_t process_work(struct poller *p, struct rte_mbuf **packets, uint16_t n)
{
	uint64_t x = script.chain;

	RTE_SET_USED(p);
	for (uint16_t i = 0; script.steps && i < n; i++) {
		x += packets[i]->pkt_len;
		x = chain_on(x, script.steps);
	}
	script.chain = x;
	return n;
}

SAMPLED_LOOP(loop_scripted, SOURCE_LOCKED, false, receive_scripted, process_work, false, send_port)

static bool send_all(struct rte_mbuf **packets, uint16_t n)
{
	uint16_t sent = 0;

	for (unsigned int i = 0; i < TRIES && sent < n; i++)
		sent += rte_eth_tx_burst(script.tx_port, 0, packets + sent, n - sent);
	rte_pktmbuf_free_bulk(packets + sent, n - sent);
	return sent == n;
}

static bool fill_queue(const struct entry *entry)
{
	struct rte_mbuf *packets[ACCOUNT_BURST_MAX];
	const struct packet_stamp stamp = {0};

	if (entry->burst == 0)
		return true;
	if (rte_mempool_get_bulk(script.pool, (void **)packets, entry->burst) != 0)
		return false;
	for (uint16_t i = 0; i < entry->burst; i++)
		packet_write(packets[i], (uint8_t *)(packets[i] + 1) + RTE_PKTMBUF_HEADROOM, &script.template,
		             &script.flows[entry->queue], &stamp);
	return send_all(packets, entry->burst);
}

static int fill_rings(void *arg)
{
	RTE_SET_USED(arg);
	while (!atomic_load(&script.over)) {
		/*
		 * spin like a generator between packets, so that polls of the neighbouring thread cost what they cost in a
		 * trial
		 */
		if (atomic_load(&script.wanted) == atomic_load(&script.filled)) {
			cycles_stamp();
			continue;
		}
		for (uint32_t i = 0; i < script.lengths[KIND_BUSY] && !script.stuck; i++)
			script.stuck = !fill_queue(&script.entries[KIND_BUSY][i]);
		atomic_fetch_add(&script.filled, 1);
	}
	return 0;
}

static int poll_script(void *arg)
{
	struct poller *p = arg;

	p->no_drain = true;
	script.steps = (uint32_t)((double)script.work_cycles / least_step_cycles(p));
	loop_scripted(p);
	p->no_drain = false;
	atomic_store(&script.over, true);
	return 0;
}

static int make_flows(uint16_t rx_port, struct node_error *err)
{
	static const struct rss_freedom freedom = {
	        .source = 0x000f0000, .destination = 0xff, .source_port = UINT16_MAX};
	static struct gen_target target;
	static struct rss_inverse inverse;
	struct rte_ether_addr source;
	struct rng rng;

	if (gen_target_read(rx_port, &target, err))
		return -1;
	if (target.rss.queues > 1 && rss_inverse_init(&inverse, &target.rss, &freedom) != 0)
		return node_fail(err, "", "the port's RETA cannot be inverted");
	rng_seed(&rng, 1);
	for (uint16_t q = 0; q < target.rss.queues; q++) {
		struct rss_tuple tuple = {0xac100000u | q, 0x0a000001, 1024, PACKET_DESTINATION_PORT};

		if (target.rss.queues > 1)
			rss_inverse_steer(&inverse, &rng, q, &tuple);
		packet_flow_init(&script.flows[q], q, tuple.source, tuple.destination, tuple.source_port);
	}
	rte_eth_macaddr_get(script.tx_port, &source);
	packet_template_init(&script.template, FRAME, &source, &target.mac, 1);
	return 0;
}

static int allocate(size_t polls, struct node_error *err)
{
	for (int k = 0; k < KINDS; k++) {
		script.entries[k] = calloc(polls, sizeof(*script.entries[k]));
		script.cycles[k] = calloc(script.passes, sizeof(*script.cycles[k]));
		if (!script.entries[k] || !script.cycles[k])
			return node_fail(err, "burst", "out of memory");
	}
	script.step_cycles = calloc(script.passes, sizeof(*script.step_cycles));
	return script.step_cycles ? 0 : node_fail(err, "burst", "out of memory");
}

static void add_poll(enum kind kind, struct entry entry)
{
	script.entries[kind][script.lengths[kind]++] = entry;
}

static int read_script(const json_t *request, const struct poller *p, struct node_error *err)
{
	const json_t *bursts = json_object_get(request, "burst"), *each;
	const uint32_t queues = script.queues;
	const bool bystanders = 2 * queues <= p->queues;
	size_t i;

	if (!json_is_array(bursts) || json_array_size(bursts) < 1 || json_array_size(bursts) > POLLS_MAX)
		return node_fail(err, "burst", "must be an array of 1 to %u numbers", POLLS_MAX);
	if (allocate(json_array_size(bursts), err))
		return -1;
	json_array_foreach(bursts, i, each)
	{
		const json_int_t burst = json_is_integer(each) ? json_integer_value(each) : -1;
		const uint16_t queue = (uint16_t)(i % queues);
		const struct entry empty = {(uint16_t)(queue + (bystanders ? queues : 0)), 0};
		const struct entry entry = burst ? (struct entry){queue, (uint16_t)burst} : empty;

		if (burst < 0 || burst > p->burst)
			return node_fail(err, "burst", "[%zu] must be 0 to %u", i, p->burst);
		script.packets += entry.burst;
		add_poll(KIND_ALL, entry);
		if (burst)
			add_poll(KIND_BUSY, entry);
		/* for every poll: gaps in place of the busy ones would make the others more expensive */
		add_poll(KIND_EMPTY, empty);
	}
	return 0;
}

static int prepare(json_t *request, const struct poller *p, struct node_error *err)
{
	const struct field fields[] = {
	        FIELDS_OF_REQUEST,
	        {.key = "burst"},
	        {"queues", FIELD_NUMBER, FIELD_OF(struct script, queues), .min = 1, .max = p->queues},
	        {"passes", FIELD_NUMBER, FIELD_OF(struct script, passes), .min = 1, .max = PASSES_MAX},
	        {"work_cycles", FIELD_NUMBER, FIELD_OF(struct script, work_cycles), .max = WORK_MAX},
	        {0}};

	script.passes = 1;
	script.queues = p->queues;
	if (fields_read(request, "", fields, &script, err))
		return -1;
	if (read_script(request, p, err) || make_flows(p->rx_port, err))
		return -1;
	script.chunks = PASS_POLLS / script.lengths[KIND_ALL] + 1;
	return 0;
}

static json_t *passes_json(void)
{
	json_t *object = json_object();

	for (int k = 0; k < KINDS; k++) {
		json_t *list = json_array();

		for (uint32_t i = 0; i < script.passes; i++)
			json_array_append_new(list, json_integer((json_int_t)script.cycles[k][i]));
		json_object_set_new(object, kind_names[k], list);
	}
	return object;
}

/* Cycles of a packet's work, after each pass with all polls. */
static json_t *work_json(void)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < script.passes; i++)
		json_array_append_new(list, json_real(script.steps * script.step_cycles[i]));
	return list;
}

static json_t *polls_json(void)
{
	return json_pack("{s:I,s:I,s:I}", kind_names[KIND_ALL], (json_int_t)script.lengths[KIND_ALL],
	                 kind_names[KIND_BUSY], (json_int_t)script.lengths[KIND_BUSY], kind_names[KIND_EMPTY],
	                 (json_int_t)script.lengths[KIND_EMPTY]);
}

/* The timed intervals themselves, to check their sums and to try other estimates. */
static json_t *timed_intervals_list(const struct account *a)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < a->timed_intervals_count; i++) {
		const struct account_timed_interval *s = &a->timed_intervals[i];

		json_array_append_new(list, json_pack("[i,i,i,i,I]", s->polls, s->busy_polls, s->transitions,
		                                      s->packets, (json_int_t)s->cycles));
	}
	return list;
}

static json_t *run(struct poller *p, struct node_error *err)
{
	struct account *a = &p->accounts[STAGE_WINDOW];

	script.trial = (struct trial){.tsc_hz = clock_tsc_hz(), .wake_fd = -1, .end_tsc = UINT64_MAX / 2};
	poll_reset(p, &script.trial);
	a->timed_intervals = calloc(TIMED_INTERVALS_MAX, sizeof(*a->timed_intervals));
	a->timed_intervals_max = a->timed_intervals ? TIMED_INTERVALS_MAX : 0;
	rte_eal_remote_launch(fill_rings, NULL, script.filler);
	rte_eal_remote_launch(poll_script, p, p->lcore);
	lcore_wait_all();
	p->trial = NULL;
	if (script.stuck || a->rx_packets != script.packets * script.chunks * script.passes) {
		node_fail(err, "burst",
		          "packets were lost: a ring or pool is too small for the script, or the generator's "
		          "frames do not reach the DUT");
		return NULL;
	}
	return json_pack("{s:I,s:o,s:o,s:o,s:o,s:o}", "chunks", (json_int_t)script.chunks, "polls",
	                 polls_json(), "cycles", passes_json(), "work", work_json(), "timed_intervals",
	                 timed_intervals_list(a), "lcore", dut_window(p));
}

static bool can_run(const struct poller *p)
{
	return p && p->source == SOURCE_RX_QUEUES && p->role == POLLER_WORKER &&
	       p->accounting == ACCOUNTING_SAMPLED && p->tx_port != NO_PORT && gen_lcore() != LCORE_ID_ANY;
}

json_t *oracle(json_t *request, struct node_error *err)
{
	struct poller *p = dut_rx_poller();
	json_t *reply = NULL;

	memset(&script, 0, sizeof(script));
	if (!can_run(p)) {
		node_fail(err, "",
		          "needs a generator, and a DUT lcore (accounting sampled) that reads RX queues of "
		          "its own and sends");
		return NULL;
	}
	script.filler = gen_lcore();
	script.tx_port = gen_tx_port(&script.pool);
	if (prepare(request, p, err) == 0)
		reply = run(p, err);
	free(p->accounts[STAGE_WINDOW].timed_intervals);
	p->accounts[STAGE_WINDOW].timed_intervals = NULL;
	p->accounts[STAGE_WINDOW].timed_intervals_max = 0;
	for (int k = 0; k < KINDS; k++) {
		free(script.entries[k]);
		free(script.cycles[k]);
	}
	free(script.step_cycles);
	return reply;
}
