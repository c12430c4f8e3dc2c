/* SPDX-License-Identifier: BSD-3-Clause */
#include "encryptor.h"

#include <stdio.h>

#include <rte_bus_vdev.h>
#include <rte_cryptodev.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

#include "accounting.h"
#include "payload.h"

/* The interface of DPDK 22.11 and later, where one call makes a session. Differences between releases stay in this file. */

#define QUEUE_PAIR_SLOTS 2048 /* more than a burst, so that the device takes a burst as a whole */
#define OP_IV_OFFSET     (sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_sym_op))
#define KEY_BYTES        16
#define LONG_KEY_BYTES   32
#define HMAC_KEY_BYTES   20
#define GCM_SALT_BYTES   4
#define GCM_NONCE_BYTES  12 /* salt and IV */
#define CBC_IV_BYTES     16

struct encryptor {
	enum encryption encryption;
	struct esp_association association; /* ENCRYPT_ESP */
	enum esp_transform transform;
	struct rte_ether_hdr next_hop; /* ENCRYPT_PAYLOAD */
	uint64_t packets;
	uint8_t device;
	uint16_t queue_pair;
	void *session;
	struct rte_mempool *op_pool;
	struct rte_crypto_op *ops[ACCOUNT_BURST_MAX]; /* all in use during a burst, in any order */
};

/* One device for all lcores, made with the first encryptor and kept. */
static struct {
	const char *driver; /* NULL: not made yet */
	uint8_t id;
	struct rte_mempool *sessions;
} device;

const char *encryptor_driver(void)
{
	return device.driver;
}

/*
 * No secret is protected, so any key will do: bytes 0, 1, 2 ..., the first one the number of the SA. GCM's salt follows the
 * key.
 */
static void make_key(uint8_t *key, unsigned int bytes, uint8_t number)
{
	key[0] = number;
	for (unsigned int i = 1; i < bytes; i++)
		key[i] = (uint8_t)i;
}

/* Create a device with the first driver that is available. Returns its name, or NULL. */
static const char *create_device(char name[RTE_CRYPTODEV_NAME_MAX_LEN])
{
	static const char *const drivers[] = {"crypto_aesni_mb", "crypto_openssl"};
	char arguments[64];

	snprintf(arguments, sizeof(arguments), "max_nb_queue_pairs=%u,socket_id=%d", rte_lcore_count(),
	         (int)rte_socket_id());
	for (unsigned int i = 0; i < RTE_DIM(drivers); i++) {
		snprintf(name, RTE_CRYPTODEV_NAME_MAX_LEN, "%s_pollscope", drivers[i]);
		if (rte_vdev_init(name, arguments) == 0)
			return drivers[i];
	}
	return NULL;
}

/* One queue pair per lcore of the process. */
static int start_device(uint8_t id, struct rte_mempool *sessions)
{
	struct rte_cryptodev_config config = {.socket_id = (int)rte_socket_id(),
	                                      .nb_queue_pairs = (uint16_t)rte_lcore_count()};
	const struct rte_cryptodev_qp_conf pair = {.nb_descriptors = QUEUE_PAIR_SLOTS,
	                                           .mp_session = sessions};
	int status = rte_cryptodev_configure(id, &config);

	for (uint16_t i = 0; status == 0 && i < config.nb_queue_pairs; i++)
		status = rte_cryptodev_queue_pair_setup(id, i, &pair, config.socket_id);
	return status ? status : rte_cryptodev_start(id);
}

static int ensure_device(struct node_error *err)
{
	char name[RTE_CRYPTODEV_NAME_MAX_LEN];

	if (device.driver)
		return 0;
	const char *driver = create_device(name);

	if (!driver)
		return node_fail(
		        err, "dut.workload",
		        "ipsec and crypto need a software crypto driver of DPDK, and neither crypto_aesni_mb "
		        "nor crypto_openssl is here; install one (Debian: librte-crypto-ipsec-mb*, "
		        "librte-crypto-openssl*)");
	const int id = rte_cryptodev_get_dev_id(name);

	if (id < 0)
		return node_fail(err, "dut.workload", "%s cannot be found again", name);
	struct rte_mempool *sessions = rte_cryptodev_sym_session_pool_create(
	        "crypto_sessions", rte_lcore_count(), rte_cryptodev_sym_get_private_session_size((uint8_t)id),
	        0, 0, (int)rte_socket_id());
	const int status = sessions ? start_device((uint8_t)id, sessions) : -ENOMEM;

	if (status) {
		rte_mempool_free(sessions);
		rte_vdev_uninit(name);
		return node_fail(err, "dut.workload", "%s cannot be started: %s", driver,
		                 rte_strerror(-status));
	}
	device.driver = driver;
	device.id = (uint8_t)id;
	device.sessions = sessions;
	return 0;
}

/* With an HMAC behind it, or alone with the longer key. */
static void *new_cbc_session(uint8_t number, bool alone)
{
	uint8_t key[LONG_KEY_BYTES], hmac_key[HMAC_KEY_BYTES];
	struct rte_crypto_sym_xform hmac = {
	        .type = RTE_CRYPTO_SYM_XFORM_AUTH,
	        .auth = {.op = RTE_CRYPTO_AUTH_OP_GENERATE,
	                 .algo = RTE_CRYPTO_AUTH_SHA1_HMAC,
	                 .key = {.data = hmac_key, .length = sizeof(hmac_key)},
	                 .digest_length = 12},
	};
	struct rte_crypto_sym_xform cbc = {
	        .next = alone ? NULL : &hmac,
	        .type = RTE_CRYPTO_SYM_XFORM_CIPHER,
	        .cipher = {.op = RTE_CRYPTO_CIPHER_OP_ENCRYPT,
	                   .algo = RTE_CRYPTO_CIPHER_AES_CBC,
	                   .key = {.data = key, .length = alone ? LONG_KEY_BYTES : KEY_BYTES},
	                   .iv = {.offset = OP_IV_OFFSET, .length = CBC_IV_BYTES}},
	};

	make_key(key, sizeof(key), number);
	make_key(hmac_key, sizeof(hmac_key), number);
	return rte_cryptodev_sym_session_create(device.id, &cbc, device.sessions);
}

static void *new_gcm_session(uint8_t number)
{
	uint8_t key[KEY_BYTES];
	struct rte_crypto_sym_xform gcm = {
	        .type = RTE_CRYPTO_SYM_XFORM_AEAD,
	        .aead = {.op = RTE_CRYPTO_AEAD_OP_ENCRYPT,
	                 .algo = RTE_CRYPTO_AEAD_AES_GCM,
	                 .key = {.data = key, .length = sizeof(key)},
	                 .iv = {.offset = OP_IV_OFFSET, .length = GCM_NONCE_BYTES},
	                 .digest_length = 16,
	                 .aad_length = sizeof(struct rte_esp_hdr)},
	};

	make_key(key, sizeof(key), number);
	return rte_cryptodev_sym_session_create(device.id, &gcm, device.sessions);
}

static void *new_session(const struct encryptor_spec *spec)
{
	const bool alone = spec->encryption == ENCRYPT_PAYLOAD;

	return !alone && spec->transform == ESP_AES_GCM ? new_gcm_session(spec->number)
	                                                : new_cbc_session(spec->number, alone);
}

/* Prepare what all packets share: the session, and the IV of CBC (0) or the salt of GCM. */
static int make_ops(struct encryptor *e, unsigned int lcore)
{
	uint8_t salted_key[KEY_BYTES + GCM_SALT_BYTES];
	char name[RTE_MEMPOOL_NAMESIZE];

	snprintf(name, sizeof(name), "crypto_ops.%u", lcore);
	e->op_pool = rte_crypto_op_pool_create(name, RTE_CRYPTO_OP_TYPE_SYMMETRIC, ACCOUNT_BURST_MAX, 0,
	                                       CBC_IV_BYTES, (int)rte_lcore_to_socket_id(lcore));
	if (!e->op_pool || rte_crypto_op_bulk_alloc(e->op_pool, RTE_CRYPTO_OP_TYPE_SYMMETRIC, e->ops,
	                                            ACCOUNT_BURST_MAX) != ACCOUNT_BURST_MAX)
		return -1;
	make_key(salted_key, sizeof(salted_key), 0);
	for (unsigned int i = 0; i < ACCOUNT_BURST_MAX; i++) {
		uint8_t *iv = rte_crypto_op_ctod_offset(e->ops[i], uint8_t *, OP_IV_OFFSET);

		rte_crypto_op_attach_sym_session(e->ops[i], e->session);
		memset(iv, 0, CBC_IV_BYTES);
		if (e->transform == ESP_AES_GCM)
			memcpy(iv, salted_key + KEY_BYTES, GCM_SALT_BYTES);
	}
	return 0;
}

struct encryptor *encryptor_new(const struct encryptor_spec *spec, struct node_error *err)
{
	if (ensure_device(err))
		return NULL;
	struct encryptor *e = rte_zmalloc_socket("encryptor", sizeof(*e), RTE_CACHE_LINE_SIZE,
	                                         (int)rte_lcore_to_socket_id(spec->lcore));

	if (!e) {
		node_fail(err, "dut", "out of memory");
		return NULL;
	}
	esp_init(&e->association, spec->transform, spec->number, &spec->ethernet);
	e->encryption = spec->encryption;
	e->next_hop = spec->ethernet;
	e->transform = spec->transform;
	e->device = device.id;
	e->queue_pair = (uint16_t)rte_lcore_index((int)spec->lcore);
	e->session = new_session(spec);
	if (!e->session)
		node_fail(err, spec->encryption == ENCRYPT_ESP ? "dut.transform" : "dut.workload",
		          "%s refuses it: %s", device.driver, rte_strerror(rte_errno));
	else if (make_ops(e, spec->lcore))
		node_fail(err, "dut", "no memory for crypto operations");
	else
		return e;
	encryptor_free(e);
	return NULL;
}

void encryptor_free(struct encryptor *e)
{
	if (!e)
		return;
	rte_mempool_free(e->op_pool); /* contains the operations */
	if (e->session)
		rte_cryptodev_sym_session_free(e->device, e->session);
	rte_free(e);
}

/*
 * CBC needs an unpredictable IV (RFC 3602 section 3). By NIST SP 800-38A appendix C a counter encrypted with the same key is
 * one. With an IV of 0 in the operation, the first block of CBC is exactly that, and the rest is CBC with this IV.
 */
static void fill_cbc(const struct encryptor *e, struct rte_crypto_sym_op *sym, uint32_t encrypted)
{
	const uint32_t bytes = e->association.iv_bytes + encrypted;

	sym->cipher.data.offset = ESP_IV_OFFSET;
	sym->cipher.data.length = bytes;
	sym->auth.data.offset = ESP_OFFSET;
	sym->auth.data.length = (uint32_t)sizeof(struct rte_esp_hdr) + bytes;
	sym->auth.digest.data = rte_pktmbuf_mtod_offset(sym->m_src, uint8_t *, ESP_IV_OFFSET + bytes);
	sym->auth.digest.phys_addr = rte_pktmbuf_iova_offset(sym->m_src, ESP_IV_OFFSET + bytes);
}

/* SPI and sequence number are authenticated in place, before the IV. */
static void fill_gcm(const struct encryptor *e, struct rte_crypto_op *op, uint32_t encrypted)
{
	struct rte_crypto_sym_op *sym = op->sym;
	const uint32_t begin = ESP_IV_OFFSET + e->association.iv_bytes;
	uint8_t *nonce = rte_crypto_op_ctod_offset(op, uint8_t *, OP_IV_OFFSET);

	memcpy(nonce + GCM_SALT_BYTES, rte_pktmbuf_mtod_offset(sym->m_src, uint8_t *, ESP_IV_OFFSET),
	       GCM_NONCE_BYTES - GCM_SALT_BYTES);
	sym->aead.data.offset = begin;
	sym->aead.data.length = encrypted;
	sym->aead.digest.data = rte_pktmbuf_mtod_offset(sym->m_src, uint8_t *, begin + encrypted);
	sym->aead.digest.phys_addr = rte_pktmbuf_iova_offset(sym->m_src, begin + encrypted);
	sym->aead.aad.data = rte_pktmbuf_mtod_offset(sym->m_src, uint8_t *, ESP_OFFSET);
	sym->aead.aad.phys_addr = rte_pktmbuf_iova_offset(sym->m_src, ESP_OFFSET);
}

/*
 * Forward the packet with room for an IV before its payload and padding after it. Returns the bytes to be encrypted; 0: drop
 * it.
 */
static uint32_t enter_payload(struct encryptor *e, struct rte_mbuf *packet)
{
	const uint32_t payload = payload_bytes(packet), padding = CBC_IV_BYTES - payload % CBC_IV_BYTES;
	uint8_t *tail = payload ? (uint8_t *)rte_pktmbuf_append(packet, (uint16_t)padding) : NULL;
	uint8_t *head = tail ? payload_open(packet, CBC_IV_BYTES) : NULL;

	if (unlikely(!head))
		return 0;
	const uint64_t count = rte_cpu_to_be_64(++e->packets);

	memset(tail, (int)padding, padding); /* RFC 5652 section 6.3 */
	memset(head, 0, CBC_IV_BYTES - sizeof(count));
	memcpy(head + CBC_IV_BYTES - sizeof(count), &count, sizeof(count));
	payload_forward(packet, &e->next_hop, CBC_IV_BYTES + padding);
	return CBC_IV_BYTES + payload + padding;
}

/* The IV is made as in fill_cbc(). */
static void fill_payload(struct rte_crypto_sym_op *sym, uint32_t encrypted)
{
	sym->cipher.data.offset = PAYLOAD_OFFSET;
	sym->cipher.data.length = encrypted;
}

static bool prepare_op(struct encryptor *e, struct rte_crypto_op *op, struct rte_mbuf *packet)
{
	const bool payload = e->encryption == ENCRYPT_PAYLOAD;
	const uint32_t encrypted = payload ? enter_payload(e, packet) : esp_enter(&e->association, packet);

	if (unlikely(encrypted == 0))
		return false;
	op->status = RTE_CRYPTO_OP_STATUS_NOT_PROCESSED;
	op->sym->m_src = packet;
	if (payload)
		fill_payload(op->sym, encrypted);
	else if (e->transform == ESP_AES_GCM)
		fill_gcm(e, op, encrypted);
	else
		fill_cbc(e, op->sym, encrypted);
	return true;
}

/*
 * Pass all n operations to the device and back. A software driver works inside these calls, so the wait is work. An operation
 * comes back to a place of `ops` that was passed in earlier, because no more come back than went in.
 */
static void run_ops(struct encryptor *e, uint16_t n)
{
	uint16_t sent = 0, back = 0;

	while (back < n) {
		sent += rte_cryptodev_enqueue_burst(e->device, e->queue_pair, e->ops + sent, n - sent);
		back += rte_cryptodev_dequeue_burst(e->device, e->queue_pair, e->ops + back, sent - back);
	}
}

uint16_t encryptor_encrypt(struct encryptor *e, struct rte_mbuf **packets, uint16_t n)
{
	uint16_t prepared = 0, kept = 0;

	for (uint16_t i = 0; i < n; i++) {
		if (likely(prepare_op(e, e->ops[prepared], packets[i])))
			prepared++;
		else
			rte_pktmbuf_free(packets[i]);
	}
	run_ops(e, prepared);
	for (uint16_t i = 0; i < prepared; i++) {
		if (likely(e->ops[i]->status == RTE_CRYPTO_OP_STATUS_SUCCESS))
			packets[kept++] = e->ops[i]->sym->m_src;
		else
			rte_pktmbuf_free(e->ops[i]->sym->m_src);
	}
	return kept;
}
