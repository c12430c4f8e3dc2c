/* SPDX-License-Identifier: BSD-3-Clause */
#include "stamps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_byteorder.h>
#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_time.h>

#include "cycles.h"
#include "ports/ports.h"

#define HIGHEST_TIME_NS 10000000000ull

/* A frame that is not back by then is lost, or counts as late if it comes after all. */
#define PATIENCE_NS 100000000

/* Rounds in which two clocks are compared; the shortest counts. */
#define COMPARISONS 16

/*
 * A sample is implausible if the clocks of NIC and host differ by more than a thousandth, plus a microsecond for steps of the
 * NIC's clock.
 */
#define RATE_TOLERANCE 1000
#define STEP_MAX_NS    1000

/* A PTP message over Ethernet; header of IEEE 1588-2008, 13.3. */
#define PTP_OFFSET        RTE_ETHER_HDR_LEN
#define PTP_SYNC          0x00
#define PTP_VERSION       0x02
#define PTP_SYNC_BYTES    44
#define PTP_LENGTH_AT     (PTP_OFFSET + 2)
#define PTP_CLOCK_ID_AT   (PTP_OFFSET + 20)
#define PTP_SEQUENCE_AT   (PTP_OFFSET + 30)
#define PTP_INTERVAL_AT   (PTP_OFFSET + 33)
#define PTP_NO_INTERVAL   0x7f
#define ETHER_TYPE_OFFSET 12

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b != 0) {
		const uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

int gen_stamps_prepare(struct gen_stamps *stamps, uint64_t every_ns, struct rte_mempool *pool,
                       struct node_error *err)
{
	stamps->every_ns = every_ns;
	stamps->pool = pool;
	stamps->next_tsc = UINT64_MAX;
	if (every_ns > 0 && (histogram_init(&stamps->nic_ns, 1, HIGHEST_TIME_NS, 3) != 0 ||
	                     histogram_init(&stamps->software_ns, 1, HIGHEST_TIME_NS, 3) != 0))
		return node_fail(err, "gen", "no memory for histograms");
	return 0;
}

static void refuse(struct gen_stamps *stamps, uint16_t port, const char *why)
{
	struct rte_eth_dev_info info = {0};
	char name[RTE_ETH_NAME_MAX_LEN] = "a port";

	rte_eth_dev_get_name_by_port(port, name);
	if (rte_eth_dev_info_get(port, &info) != 0 || info.driver_name == NULL)
		info.driver_name = "unknown";
	snprintf(stamps->absent, sizeof(stamps->absent), "%s (driver %s) gives no time stamps: %s", name,
	         info.driver_name, why);
}

/*
 * Compare the clocks of the receiving and the sending port: one reading of the former between two of the latter. *width_ns:
 * length of the quickest round, to half of which the result is exact. Returns 0 or a negative error number.
 */
static int compare_clocks(const struct gen_stamps *stamps, int64_t *apart_ns, uint64_t *width_ns)
{
	struct timespec before, there, after;

	*width_ns = UINT64_MAX;
	for (unsigned int i = 0; i < COMPARISONS; i++) {
		int status = rte_eth_timesync_read_time(stamps->tx_port, &before);

		if (status == 0)
			status = rte_eth_timesync_read_time(stamps->rx_port, &there);
		if (status == 0)
			status = rte_eth_timesync_read_time(stamps->tx_port, &after);
		if (status != 0)
			return status;
		if (rte_timespec_to_ns(&after) - rte_timespec_to_ns(&before) < *width_ns) {
			*width_ns = rte_timespec_to_ns(&after) - rte_timespec_to_ns(&before);
			*apart_ns = (int64_t)(rte_timespec_to_ns(&there) - rte_timespec_to_ns(&before) -
			                      *width_ns / 2);
		}
	}
	return 0;
}

/* Ports of one card share a clock. If each port has its own, a difference of their stamps means nothing. */
static void require_one_clock(struct gen_stamps *stamps)
{
	int64_t apart_ns = 0;
	uint64_t width_ns;

	stamps->apart_ns = 0;
	if (stamps->tx_port == stamps->rx_port)
		return;
	const int status = compare_clocks(stamps, &apart_ns, &width_ns);

	if (status != 0) {
		refuse(stamps, stamps->rx_port, rte_strerror(-status));
	} else if ((uint64_t)llabs(apart_ns) > width_ns + STEP_MAX_NS) {
		char why[64];

		snprintf(why, sizeof(why), "its clock and the sender's are %lld ns apart",
		         (long long)apart_ns);
		refuse(stamps, stamps->rx_port, why);
	} else {
		stamps->apart_ns = (uint64_t)llabs(apart_ns) + width_ns / 2;
	}
}

static void require_stamps(struct gen_stamps *stamps)
{
	const uint16_t ports[] = {stamps->tx_port, stamps->rx_port};

	stamps->absent[0] = '\0';
	for (unsigned int i = 0; i < RTE_DIM(ports); i++) {
		const int status = ports_timesync(ports[i]);

		if (status != 0) {
			refuse(stamps, ports[i], rte_strerror(-status));
			return;
		}
	}
	require_one_clock(stamps);
}

void gen_stamps_begin(struct gen_stamps *stamps, uint16_t tx_port, uint16_t rx_port,
                      const struct trial *trial)
{
	stamps->next_tsc = UINT64_MAX;
	if (stamps->every_ns == 0)
		return;
	stamps->tx_port = tx_port;
	stamps->rx_port = rx_port;
	stamps->tx_queue = 0;
	stamps->tsc_hz = trial->tsc_hz;
	stamps->every = cycles_of_ns(stamps->every_ns, trial->tsc_hz);
	stamps->patience = cycles_of_ns(PATIENCE_NS, trial->tsc_hz);
	stamps->is_out = false;
	stamps->sent = stamps->back = stamps->late = stamps->unstamped = stamps->implausible = 0;
	stamps->last_left_ns = stamps->clock_step_ns = stamps->longest_read = 0;
	histogram_reset(&stamps->nic_ns);
	histogram_reset(&stamps->software_ns);
	require_stamps(stamps);
	if (stamps->absent[0] == '\0')
		stamps->next_tsc = trial->start_tsc;
}

void gen_stamps_address(struct gen_stamps *stamps, const struct rte_ether_addr *source,
                        const struct rte_ether_addr *destination)
{
	const struct rte_ether_hdr ethernet = {
	        .dst_addr = *destination, .src_addr = *source, .ether_type = RTE_BE16(RTE_ETHER_TYPE_1588)};
	const uint16_t bytes = RTE_BE16(PTP_SYNC_BYTES);

	memset(stamps->frame, 0, sizeof(stamps->frame));
	memcpy(stamps->frame, &ethernet, sizeof(ethernet));
	stamps->frame[PTP_OFFSET] = PTP_SYNC;
	stamps->frame[PTP_OFFSET + 1] = PTP_VERSION;
	memcpy(stamps->frame + PTP_LENGTH_AT, &bytes, sizeof(bytes));
	/* An EUI-64 of the MAC address distinguishes these frames from those of a PTP daemon. */
	memcpy(stamps->frame + PTP_CLOCK_ID_AT, source->addr_bytes, 3);
	memcpy(stamps->frame + PTP_CLOCK_ID_AT + 3, "\xff\xfe", 2);
	memcpy(stamps->frame + PTP_CLOCK_ID_AT + 5, source->addr_bytes + 3, 3);
	stamps->frame[PTP_INTERVAL_AT] = PTP_NO_INTERVAL;
}

void gen_stamps_send(struct gen_stamps *stamps, uint64_t now)
{
	struct rte_mbuf *mbuf;
	struct timespec stale;
	uint16_t sequence;

	stamps->next_tsc = now + stamps->every;
	if (stamps->is_out && now - stamps->sent_tsc < stamps->patience)
		return;
	mbuf = rte_pktmbuf_alloc(stamps->pool);
	if (mbuf == NULL)
		return;
	if (stamps->is_out) /* lost; its stamp would be taken for that of the next frame */
		rte_eth_timesync_read_tx_timestamp(stamps->tx_port, &stale);
	sequence = rte_cpu_to_be_16(++stamps->sequence);
	memcpy(rte_pktmbuf_append(mbuf, GEN_STAMPS_FRAME_BYTES), stamps->frame, GEN_STAMPS_FRAME_BYTES);
	memcpy(rte_pktmbuf_mtod(mbuf, uint8_t *) + PTP_SEQUENCE_AT, &sequence, sizeof(sequence));
	mbuf->ol_flags |= RTE_MBUF_F_TX_IEEE1588_TMST;
	stamps->sent_tsc = rte_rdtsc();
	stamps->is_out = rte_eth_tx_burst(stamps->tx_port, stamps->tx_queue, &mbuf, 1) == 1;
	stamps->sent += stamps->is_out;
	if (!stamps->is_out)
		rte_pktmbuf_free(mbuf);
}

static bool is_ours(const struct gen_stamps *stamps, const struct rte_mbuf *mbuf)
{
	return mbuf->data_len >= GEN_STAMPS_FRAME_BYTES &&
	       memcmp(rte_pktmbuf_mtod(mbuf, const uint8_t *) + ETHER_TYPE_OFFSET,
	              stamps->frame + ETHER_TYPE_OFFSET, PTP_SEQUENCE_AT - ETHER_TYPE_OFFSET) == 0;
}

static bool is_the_one(const struct gen_stamps *stamps, const struct rte_mbuf *mbuf)
{
	uint16_t sequence;

	memcpy(&sequence, rte_pktmbuf_mtod(mbuf, const uint8_t *) + PTP_SEQUENCE_AT, sizeof(sequence));
	return stamps->is_out && sequence == rte_cpu_to_be_16(stamps->sequence);
}

static void record(struct gen_stamps *stamps, uint64_t left_ns, uint64_t came_ns, uint64_t software_ns)
{
	const uint64_t nic_ns = came_ns - left_ns;

	if (came_ns <= left_ns || nic_ns > software_ns + software_ns / RATE_TOLERANCE + STEP_MAX_NS) {
		stamps->implausible++;
		return;
	}
	histogram_record(&stamps->nic_ns, nic_ns);
	histogram_record(&stamps->software_ns, software_ns);
	stamps->clock_step_ns = common_divisor(stamps->clock_step_ns, nic_ns);
	if (stamps->last_left_ns != 0)
		stamps->clock_step_ns = common_divisor(stamps->clock_step_ns, left_ns - stamps->last_left_ns);
	stamps->last_left_ns = left_ns;
}

bool gen_stamps_take(struct gen_stamps *stamps, const struct rte_mbuf *mbuf, uint64_t arrival)
{
	const bool is_told = mbuf->ol_flags & (RTE_MBUF_F_RX_IEEE1588_PTP | RTE_MBUF_F_RX_IEEE1588_TMST);
	struct timespec left, came;

	if (!is_ours(stamps, mbuf))
		return false;
	if (!is_the_one(stamps, mbuf)) {
		stamps->late++;
		return true;
	}
	stamps->is_out = false;
	stamps->back++;
	const uint64_t begun = rte_rdtsc();
	const bool has_came =
	        rte_eth_timesync_read_rx_timestamp(stamps->rx_port, &came, is_told ? mbuf->timesync : 0) == 0;
	const bool has_left = rte_eth_timesync_read_tx_timestamp(stamps->tx_port, &left) == 0;

	stamps->longest_read = RTE_MAX(stamps->longest_read, rte_rdtsc() - begun);
	if (has_came && has_left)
		record(stamps, rte_timespec_to_ns(&left), rte_timespec_to_ns(&came),
		       cycles_to_ns(arrival - stamps->sent_tsc, stamps->tsc_hz));
	else
		stamps->unstamped++;
	return true;
}

static json_t *integer(uint64_t value)
{
	return json_integer((json_int_t)value);
}

json_t *gen_stamps_report(const struct gen_stamps *stamps)
{
	if (stamps->absent[0] != '\0')
		return json_pack("{s:s}", "absent", stamps->absent);
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "every_ns",
	                 integer(stamps->every_ns), "sent", integer(stamps->sent), "back",
	                 integer(stamps->back), "late", integer(stamps->late), "unstamped",
	                 integer(stamps->unstamped), "implausible", integer(stamps->implausible),
	                 "clock_step_ns", integer(stamps->clock_step_ns), "clocks_apart_ns",
	                 integer(stamps->apart_ns), "longest_read_ns",
	                 integer(cycles_to_ns(stamps->longest_read, stamps->tsc_hz)), "latency_ns",
	                 histogram_to_json(&stamps->nic_ns, "ns"), "software_ns",
	                 histogram_to_json(&stamps->software_ns, "ns"));
}

void gen_stamps_free(struct gen_stamps *stamps)
{
	histogram_free(&stamps->nic_ns);
	histogram_free(&stamps->software_ns);
}
