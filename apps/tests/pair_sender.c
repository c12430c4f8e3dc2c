/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `tests-sender EAL-OPTIONS -- PORT QUEUE FRAMES DESTINATION`: a secondary process beside any DPDK program on net_crossover.
 *
 * Sends FRAMES frames on a TX queue of PORT (net_crossover0_b) that the program itself does not use: Ethernet to the MAC address of
 * the port at the other end, IPv4 to DESTINATION and the next 15 addresses, UDP. The mbufs come from the mempool of that port's RX
 * queue 0, so any program will do. Waits for carrier first, and after each burst until the program has taken it. Prints {"sent": N}.
 *
 * The queues and the mempool belong to the program, which frees them when it ends. It stops its ports before that, so the sender looks
 * at the carrier before each use and touches nothing any more once it is lost. Two processes share no lock for this, so the program
 * can still free memory during a use: that fault ends the sender with a message, too.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_udp.h>

#define BURST       32
#define FLOWS       16
#define FRAME_BYTES 60
#define TTL_HOPS    64
#define PATIENCE_S  10

struct sender {
	uint16_t port, peer, queue;
	unsigned long frames;
	uint32_t destination; /* host byte order */
	struct rte_ether_addr from, to;
	struct rte_mempool *pool;
};

static int usage(void)
{
	fputs("usage: tests-sender EAL-OPTIONS -- PORT QUEUE FRAMES DESTINATION\n", stderr);
	return 2;
}

/* The names of the two ports of a pair differ in the last letter only, a or b. */
static int find_ports(struct sender *sender, const char *name)
{
	char other[RTE_ETH_NAME_MAX_LEN];
	struct rte_eth_rxq_info info;
	size_t last = strlen(name) - 1;

	snprintf(other, sizeof(other), "%s", name);
	other[last] = name[last] == 'a' ? 'b' : 'a';
	if (rte_eth_dev_get_port_by_name(name, &sender->port) != 0 ||
	    rte_eth_dev_get_port_by_name(other, &sender->peer) != 0 ||
	    rte_eth_rx_queue_info_get(sender->peer, 0, &info) != 0)
		return -1;
	sender->pool = info.mp;
	rte_eth_macaddr_get(sender->port, &sender->from);
	return rte_eth_macaddr_get(sender->peer, &sender->to);
}

static int parse(struct sender *sender, int argc, char **argv)
{
	struct in_addr address;

	if (argc != 5 || argv[1][0] == '\0' || inet_pton(AF_INET, argv[4], &address) != 1)
		return usage();
	sender->queue = (uint16_t)strtoul(argv[2], NULL, 10);
	sender->frames = strtoul(argv[3], NULL, 10);
	sender->destination = ntohl(address.s_addr);
	if (find_ports(sender, argv[1]) == 0)
		return 0;
	fprintf(stderr,
	        "tests-sender: %s: this port and its peer do not both exist with an RX queue (name a port of "
	        "the program)\n",
	        argv[1]);
	return 1;
}

static bool has_carrier(const struct sender *sender)
{
	struct rte_eth_link link;

	return rte_eth_link_get_nowait(sender->port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

static bool await_carrier(const struct sender *sender)
{
	for (int i = 0; i < PATIENCE_S * 100; i++) {
		if (has_carrier(sender))
			return true;
		rte_delay_us_sleep(10000);
	}
	fprintf(stderr, "tests-sender: port %u has no carrier after %d s (start both ports)\n", sender->port,
	        PATIENCE_S);
	return false;
}

static void fill(const struct sender *sender, struct rte_mbuf *m, unsigned long flow)
{
	struct rte_ether_hdr *ether = rte_pktmbuf_mtod(m, struct rte_ether_hdr *);
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(ether + 1);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);

	m->data_len = m->pkt_len = FRAME_BYTES;
	memset(ether, 0, FRAME_BYTES);
	ether->dst_addr = sender->to;
	ether->src_addr = sender->from;
	ether->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
	ip->version_ihl = RTE_IPV4_VHL_DEF;
	ip->total_length = rte_cpu_to_be_16(FRAME_BYTES - sizeof(*ether));
	ip->time_to_live = TTL_HOPS;
	ip->next_proto_id = IPPROTO_UDP;
	ip->src_addr = rte_cpu_to_be_32(RTE_IPV4(198u, 19, 0, 1));
	ip->dst_addr = rte_cpu_to_be_32(sender->destination + (uint32_t)(flow % FLOWS));
	ip->hdr_checksum = rte_ipv4_cksum(ip);
	udp->src_port = udp->dst_port = rte_cpu_to_be_16(9);
	udp->dgram_len = rte_cpu_to_be_16(FRAME_BYTES - sizeof(*ether) - sizeof(*ip));
}

/* Waits until the program has taken what was sent, so that it misses nothing however slow it is. */
static bool await_polled(const struct sender *sender)
{
	for (int i = 0; i < PATIENCE_S * 100000 && has_carrier(sender); i++) {
		if (rte_eth_rx_queue_count(sender->peer, 0) == 0)
			return has_carrier(sender);
		rte_delay_us_sleep(10);
	}
	if (has_carrier(sender))
		fprintf(stderr, "tests-sender: port %u: no core polls RX queue 0 (start forwarding)\n",
		        sender->peer);
	else
		fprintf(stderr, "tests-sender: port %u: the carrier is lost, as when the program ends\n",
		        sender->port);
	return false;
}

static unsigned long send_all(const struct sender *sender)
{
	unsigned long sent = 0;

	while (sent < sender->frames && await_polled(sender)) {
		uint16_t count = (uint16_t)RTE_MIN(sender->frames - sent, (unsigned long)BURST), taken;
		struct rte_mbuf *burst[BURST];

		if (rte_pktmbuf_alloc_bulk(sender->pool, burst, count) != 0)
			break;
		for (uint16_t i = 0; i < count; i++)
			fill(sender, burst[i], sent + i);
		taken = rte_eth_tx_burst(sender->port, sender->queue, burst, count);
		sent += taken;
		if (taken < count) {
			if (has_carrier(sender))
				rte_pktmbuf_free_bulk(burst + taken, count - taken);
			break;
		}
	}
	return sent;
}

static void end_on_fault(int signal)
{
	static const char text[] =
	        "tests-sender: the program freed its queues during a burst, as when it ends\n";

	(void)signal;
	_exit(write(STDERR_FILENO, text, sizeof(text) - 1) < 0 ? EXIT_FAILURE + 1 : EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	struct sender sender = {0};
	int used = rte_eal_init(argc, argv), ret;
	unsigned long sent = 0;

	if (used < 0)
		return 1;
	ret = parse(&sender, argc - used, argv + used);
	signal(SIGSEGV, end_on_fault);
	if (ret == 0 && await_carrier(&sender)) {
		sent = send_all(&sender);
		printf("{\"sent\": %lu}\n", sent);
		if (!has_carrier(&sender))
			return EXIT_FAILURE;
		/* mbufs in the TX ring belong to the program's mempool */
		rte_eth_tx_done_cleanup(sender.port, sender.queue, 0);
	}
	rte_eal_cleanup();
	return ret != 0 ? ret : sent < sender.frames;
}
