/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pcap/pcap.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_byteorder.h>
#include <rte_common.h>
#include <rte_ether.h>

#include "packets.h"

#define SLOTS_LOG2    18 /* four per flow number, so that a search is short */
#define SLOTS         (1u << SLOTS_LOG2)
#define POPULATE      (UINT64_C(64) << 20) /* loaded before the trial, per file */
#define GAP_MAX_NS    UINT32_MAX
#define IPV4_OFFSET   0x1fff
#define IPV6_BYTES    40
#define PORTS_BYTES   4
#define VLAN_TAGS_MAX 2
#define WHERE         "gen.trace"

/* The key of a flow; zeroed before it is filled, so that it can be hashed whole. */
struct flow_key {
	uint8_t source[16];
	uint8_t destination[16];
	uint8_t ports[PORTS_BYTES];
	uint16_t ether_type;
	uint8_t protocol;
};

struct slot {
	uint64_t hash; /* 0: free. 65536 flows contain equal ones with a probability of 10^-10 */
	uint16_t flow;
};

/* State while the trace is read. */
struct reading {
	struct gen_trace *trace;
	FILE *entries;
	FILE *gaps;
	struct slot *slots;
	uint16_t *size_of; /* index + 1 by size in bytes; 0: none yet */
	uint32_t frame_max;
	uint64_t bytes;
	uint64_t last_ns;
};

/* The trace that was read last, and its file. */
static struct {
	struct gen_trace trace;
	char path[PATH_MAX];
	struct stat file;
	uint32_t frame_max;
	bool is_open;
} kept;

static uint64_t mixed(uint64_t hash)
{
	/* The finaliser of SplitMix64. */
	hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
	hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
	return hash ^ hash >> 31;
}

static uint64_t hash_of(const struct flow_key *key)
{
	uint64_t words[(sizeof(*key) + 7) / 8] = {0}, hash = 0;

	memcpy(words, key, sizeof(*key));
	for (unsigned int i = 0; i < RTE_DIM(words); i++)
		hash = mixed(hash + words[i] + 0x9e3779b97f4a7c15u);
	return hash == 0 ? 1 : hash;
}

static bool has_ports(uint8_t protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

static void read_ipv4(struct flow_key *key, const uint8_t *packet, uint32_t length)
{
	uint32_t header;
	uint16_t fragment;

	if (length < 20)
		return;
	header = 4 * (packet[0] & 0xfu);
	key->protocol = packet[9];
	memcpy(key->source, packet + 12, 4);
	memcpy(key->destination, packet + 16, 4);
	memcpy(&fragment, packet + 6, 2);
	if (has_ports(key->protocol) && (rte_be_to_cpu_16(fragment) & IPV4_OFFSET) == 0 &&
	    length >= header + PORTS_BYTES)
		memcpy(key->ports, packet + header, PORTS_BYTES);
}

static void read_ipv6(struct flow_key *key, const uint8_t *packet, uint32_t length)
{
	if (length < IPV6_BYTES)
		return;
	key->protocol = packet[6]; /* of the first header behind; extension headers are not followed */
	memcpy(key->source, packet + 8, 16);
	memcpy(key->destination, packet + 24, 16);
	if (has_ports(key->protocol) && length >= IPV6_BYTES + PORTS_BYTES)
		memcpy(key->ports, packet + IPV6_BYTES, PORTS_BYTES);
}

static void read_network(struct flow_key *key, const uint8_t *packet, uint32_t length)
{
	if (key->ether_type == RTE_ETHER_TYPE_IPV4)
		read_ipv4(key, packet, length);
	else if (key->ether_type == RTE_ETHER_TYPE_IPV6)
		read_ipv6(key, packet, length);
}

/* Read the flow of a frame; of VLANs only the payload counts. */
static void read_ethernet(struct flow_key *key, const uint8_t *frame, uint32_t length)
{
	uint32_t at = 2 * RTE_ETHER_ADDR_LEN;

	for (unsigned int tags = 0; length >= at + 2; tags++, at += 4) {
		key->ether_type = (uint16_t)(frame[at] << 8 | frame[at + 1]);
		if ((key->ether_type != RTE_ETHER_TYPE_VLAN && key->ether_type != RTE_ETHER_TYPE_QINQ) ||
		    tags == VLAN_TAGS_MAX)
			break;
	}
	if (length > at + 2)
		read_network(key, frame + at + 2, length - at - 2);
}

/* Link layers that carry IP without a header of their own. */
static void read_raw(struct flow_key *key, const uint8_t *packet, uint32_t length)
{
	if (length == 0)
		return;
	key->ether_type = packet[0] >> 4 == 6 ? RTE_ETHER_TYPE_IPV6 : RTE_ETHER_TYPE_IPV4;
	read_network(key, packet, length);
}

static uint16_t flow_of(struct reading *r, const struct flow_key *key)
{
	const uint64_t hash = hash_of(key);
	uint32_t at = (uint32_t)(hash >> (64 - SLOTS_LOG2));

	for (; r->slots[at].hash != 0; at = (at + 1) % SLOTS)
		if (r->slots[at].hash == hash)
			return r->slots[at].flow;
	if (r->trace->flows == PACKET_FLOWS_MAX) {
		r->trace->crowded++;
		return (uint16_t)hash;
	}
	r->slots[at] = (struct slot){.hash = hash, .flow = (uint16_t)r->trace->flows};
	return (uint16_t)r->trace->flows++;
}

static uint16_t size_of(struct reading *r, uint64_t bytes)
{
	struct gen_trace *trace = r->trace;

	trace->padded += bytes < PACKET_FRAME_BYTES_MIN;
	trace->cut += bytes > r->frame_max;
	bytes = RTE_MIN(RTE_MAX(bytes, (uint64_t)PACKET_FRAME_BYTES_MIN), (uint64_t)r->frame_max);
	if (r->size_of[bytes] == 0) {
		trace->frame_bytes[trace->sizes++] = (uint16_t)bytes;
		r->size_of[bytes] = (uint16_t)trace->sizes;
	}
	trace->largest_bytes = RTE_MAX(trace->largest_bytes, (uint32_t)bytes);
	r->bytes += bytes;
	return (uint16_t)(r->size_of[bytes] - 1);
}

static uint32_t gap_of(struct reading *r, uint64_t now_ns)
{
	uint64_t gap = 0;

	if (r->trace->packets == 0)
		r->last_ns = now_ns;
	if (now_ns < r->last_ns) {
		r->trace->backward++;
		return 0;
	}
	r->trace->shortened += now_ns - r->last_ns > GAP_MAX_NS;
	gap = RTE_MIN(now_ns - r->last_ns, (uint64_t)GAP_MAX_NS);
	r->last_ns = now_ns;
	r->trace->duration_ns += gap;
	return (uint32_t)gap;
}

static bool add_packet(struct reading *r, int link, const struct pcap_pkthdr *header, const uint8_t *data)
{
	struct flow_key key;
	struct gen_entry entry;
	uint32_t gap;
	/* Sent frames have an Ethernet header; libpcap gives nanoseconds as requested. */
	const uint32_t added = link == DLT_EN10MB ? PACKET_FCS_BYTES : RTE_ETHER_HDR_LEN + PACKET_FCS_BYTES;

	memset(&key, 0, sizeof(key));
	if (link == DLT_EN10MB)
		read_ethernet(&key, data, header->caplen);
	else
		read_raw(&key, data, header->caplen);
	entry.flow = flow_of(r, &key);
	entry.size = size_of(r, (uint64_t)header->len + added);
	gap = gap_of(r, (uint64_t)header->ts.tv_sec * 1000000000u + (uint64_t)header->ts.tv_usec);
	r->trace->packets++;
	return fwrite(&entry, sizeof(entry), 1, r->entries) == 1 &&
	       fwrite(&gap, sizeof(gap), 1, r->gaps) == 1;
}

static int read_packets(struct reading *r, pcap_t *capture, const char *path, struct node_error *err)
{
	const int link = pcap_datalink(capture);
	struct pcap_pkthdr *header;
	const uint8_t *data;
	int status;

	if (link != DLT_EN10MB && link != DLT_RAW && link != DLT_IPV4 && link != DLT_IPV6)
		return node_fail(err, WHERE, "%s holds frames of link type %s, not Ethernet or IP", path,
		                 pcap_datalink_val_to_name(link));
	while ((status = pcap_next_ex(capture, &header, &data)) == 1) {
		if (r->trace->packets == GEN_TRACE_PACKETS_MAX)
			return node_fail(err, WHERE, "%s has more than %u packets; cut it (editcap -c)", path,
			                 GEN_TRACE_PACKETS_MAX);
		if (!add_packet(r, link, header, data))
			return node_fail(err, WHERE, "no room for the play list of %s: %s; set TMPDIR", path,
			                 strerror(errno));
	}
	if (status != PCAP_ERROR_BREAK)
		return node_fail(err, WHERE, "%s, packet %u: %s", path, r->trace->packets + 1,
		                 pcap_geterr(capture));
	if (r->trace->packets < 2)
		return node_fail(err, WHERE, "%s has fewer than two packets, and cannot be replayed", path);
	if (r->trace->duration_ns == 0)
		return node_fail(err, WHERE, "%s has no packet with a later time than its first one", path);
	return 0;
}

/* A file that disappears with its last user; only this process reads and writes it. */
static FILE *unnamed_file(void)
{
	const char *const folder = getenv("TMPDIR");
	const int fd = open(folder == NULL ? "/var/tmp" : folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w+");

	if (fd >= 0 && file == NULL)
		close(fd);
	return file;
}

static const void *mapped(FILE *file, uint64_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fileno(file), 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, bytes, MADV_SEQUENTIAL);
#ifdef MADV_POPULATE_READ
	madvise(memory, RTE_MIN(bytes, POPULATE), MADV_POPULATE_READ);
#endif
	return memory;
}

/* The list ends with a copy of its beginning, so that a burst never wraps. */
static bool append_beginning(struct reading *r)
{
	for (uint32_t i = 0; i < GEN_BURST_MAX; i++) {
		struct gen_entry entry;
		const long at = (long)(i % r->trace->packets * sizeof(entry));

		if (fseek(r->entries, at, SEEK_SET) != 0 ||
		    fread(&entry, sizeof(entry), 1, r->entries) != 1 || fseek(r->entries, 0, SEEK_END) != 0 ||
		    fwrite(&entry, sizeof(entry), 1, r->entries) != 1)
			return false;
	}
	return fflush(r->entries) == 0;
}

/* The repetition begins a mean gap after the last packet. */
static bool close_turn(struct reading *r)
{
	struct gen_trace *trace = r->trace;
	const uint32_t mean = (uint32_t)(trace->duration_ns / (trace->packets - 1));

	trace->duration_ns += mean;
	return fseek(r->gaps, 0, SEEK_SET) == 0 && fwrite(&mean, sizeof(mean), 1, r->gaps) == 1 &&
	       fflush(r->gaps) == 0;
}

static uint64_t entries_bytes(const struct gen_trace *trace)
{
	return ((uint64_t)trace->packets + GEN_BURST_MAX) * sizeof(*trace->entries);
}

static uint64_t gaps_bytes(const struct gen_trace *trace)
{
	return (uint64_t)trace->packets * sizeof(*trace->gaps_ns);
}

static int map_lists(struct reading *r, const char *path, struct node_error *err)
{
	struct gen_trace *trace = r->trace;

	trace->mean_bytes = (double)r->bytes / trace->packets;
	if (append_beginning(r) && close_turn(r)) {
		trace->entries = mapped(r->entries, entries_bytes(trace));
		trace->gaps_ns = mapped(r->gaps, gaps_bytes(trace));
	}
	if (trace->entries == NULL || trace->gaps_ns == NULL)
		return node_fail(err, WHERE, "cannot map the play list of %s: %s", path, strerror(errno));
	return 0;
}

static int read_into(struct reading *r, const char *path, struct node_error *err)
{
	char reason[PCAP_ERRBUF_SIZE];
	pcap_t *capture;
	int status;

	if (r->entries == NULL || r->gaps == NULL)
		return node_fail(err, WHERE,
		                 "cannot make a file for the play list: %s; set TMPDIR to a folder on a disk",
		                 strerror(errno));
	if (r->slots == NULL || r->size_of == NULL || r->trace->frame_bytes == NULL)
		return node_fail(err, WHERE, "no memory to read %s", path);
	capture = pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, reason);
	if (capture == NULL)
		return node_fail(err, WHERE, "%s: %s", path, reason);
	status = read_packets(r, capture, path, err) || map_lists(r, path, err) ? -1 : 0;
	pcap_close(capture);
	return status;
}

static int read_trace(const char *path, uint32_t frame_max, struct node_error *err)
{
	struct reading r = {
	        .trace = &kept.trace,
	        .entries = unnamed_file(),
	        .gaps = unnamed_file(),
	        .slots = calloc(SLOTS, sizeof(*r.slots)),
	        .size_of = calloc(frame_max + 1, sizeof(*r.size_of)),
	        .frame_max = frame_max,
	};
	int status;

	kept.trace = (struct gen_trace){.frame_bytes = calloc(frame_max + 1, sizeof(uint16_t))};
	status = read_into(&r, path, err);
	if (r.entries != NULL)
		fclose(r.entries); /* the mapping stays */
	if (r.gaps != NULL)
		fclose(r.gaps);
	free(r.slots);
	free(r.size_of);
	return status;
}

static bool is_kept(const char *path, const struct stat *file, uint32_t frame_max)
{
	return kept.is_open && strcmp(path, kept.path) == 0 && frame_max == kept.frame_max &&
	       file->st_dev == kept.file.st_dev && file->st_ino == kept.file.st_ino &&
	       file->st_size == kept.file.st_size && file->st_mtim.tv_sec == kept.file.st_mtim.tv_sec &&
	       file->st_mtim.tv_nsec == kept.file.st_mtim.tv_nsec;
}

int gen_trace_open(const char *path, uint32_t frame_max, const struct gen_trace **trace,
                   struct node_error *err)
{
	struct stat file;

	if (stat(path, &file) != 0)
		return node_fail(err, WHERE, "%s: %s", path, strerror(errno));
	if (!S_ISREG(file.st_mode))
		return node_fail(err, WHERE, "%s is no file", path);
	if (!is_kept(path, &file, frame_max)) {
		gen_trace_close();
		kept.is_open = true; /* also frees a partly read trace */
		kept.path[0] = '\0';
		if (read_trace(path, frame_max, err)) {
			gen_trace_close();
			return -1;
		}
		snprintf(kept.path, sizeof(kept.path), "%s", path);
		kept.file = file;
		kept.frame_max = frame_max;
	}
	*trace = &kept.trace;
	return 0;
}

void gen_trace_close(void)
{
	struct gen_trace *trace = &kept.trace;

	if (!kept.is_open)
		return;
	if (trace->entries != NULL)
		munmap((void *)(uintptr_t)trace->entries, entries_bytes(trace));
	if (trace->gaps_ns != NULL)
		munmap((void *)(uintptr_t)trace->gaps_ns, gaps_bytes(trace));
	free(trace->frame_bytes);
	memset(&kept, 0, sizeof(kept));
}
