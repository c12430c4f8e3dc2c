/* SPDX-License-Identifier: BSD-3-Clause */
/* `tests-driver [--no-membarrier] [CASE-PREFIX...]`. The last line is `N passed, M failed`; exit code 1 if M is not zero. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <rte_bus_vdev.h>
#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_log.h>

#include "driver_suite.h"

#define SMALL_DATA_BYTES 256
#define LCORES           4

uint16_t port_a, port_b;
struct rte_mempool *pool, *small_pool, *other_pool;

uint32_t stop_lcores;

static bool failed;
static jmp_buf case_end;
static char *log_text;
static size_t log_bytes;
static FILE *log_stream;

static const struct {
	const char *name;
	const struct driver_case *cases;
} groups[] = {
        {"corec", driver_corec_cases},         {"devargs", driver_devargs_cases},
        {"configure", driver_configure_cases}, {"describe", driver_describe_cases},
        {"queue", driver_queue_cases},         {"traffic", driver_traffic_cases},
        {"swap", driver_swap_cases},           {"rss", driver_rss_cases},
        {"filter", driver_filter_cases},       {"link", driver_link_cases},
        {"stats", driver_stats_cases},         {"feed", driver_feed_cases},
        {"notify", driver_notify_cases},       {"threads", driver_threads_cases},
        {"external", driver_external_cases},
};

void driver_fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	failed = true;
	fflush(stdout);
	printf("%s:%d: ", file, line);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	longjmp(case_end, 1);
}

void log_begin(void)
{
	free(log_text);
	log_text = NULL;
	log_stream = open_memstream(&log_text, &log_bytes);
	rte_openlog_stream(log_stream);
}

const char *log_end(void)
{
	rte_openlog_stream(stderr);
	fclose(log_stream);
	return log_text;
}

void join_lcores(void)
{
	__atomic_store_n(&stop_lcores, 1, __ATOMIC_RELAXED);
	rte_eal_mp_wait_lcore();
	stop_lcores = 0;
}

int pair_make(const char *devargs)
{
	int ret;

	pair_remove();
	ret = rte_vdev_init(PAIR_NAME, devargs);
	if (ret != 0)
		return ret;
	ret = rte_eth_dev_get_port_by_name(PAIR_NAME "_a", &port_a);
	return ret != 0 ? ret : rte_eth_dev_get_port_by_name(PAIR_NAME "_b", &port_b);
}

void pair_remove(void)
{
	uint16_t port;

	for (const char *const *name = (const char *const[]){PAIR_NAME "_a", PAIR_NAME "_b", NULL}; *name;
	     name++)
		if (rte_eth_dev_get_port_by_name(*name, &port) == 0)
			rte_eth_dev_stop(port);
	rte_vdev_uninit(PAIR_NAME);
}

/* Does not count mbufs that earlier cases lost. */
static void check_pool(struct rte_mempool *mempool, unsigned int in_use_before)
{
	unsigned int in_use = rte_mempool_in_use_count(mempool);

	CHECK(in_use == in_use_before, "mempool %s: %d of %u mbufs did not come back", mempool->name,
	      (int)(in_use - in_use_before), mempool->size);
}

static bool run_case(const char *name, void (*run)(void), const char *devargs)
{
	struct rte_mempool *const pools[] = {pool, small_pool, other_pool};
	unsigned int in_use[RTE_DIM(pools)];

	failed = false;
	for (unsigned int i = 0; i < RTE_DIM(pools); i++)
		in_use[i] = rte_mempool_in_use_count(pools[i]);
	if (setjmp(case_end) == 0) {
		CHECK(pair_make(devargs) == 0, "cannot make a pair with '%s'", devargs);
		run();
	}
	join_lcores();
	pair_remove();
	if (setjmp(case_end) == 0)
		for (unsigned int i = 0; i < RTE_DIM(pools); i++)
			check_pool(pools[i], in_use[i]);
	printf("%s %s [%s]\n", failed ? "FAIL" : "ok  ", name, devargs);
	return !failed;
}

static bool is_selected(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strncmp(name, argv[i], strlen(argv[i])) == 0)
			return true;
	return argc == 1;
}

/* Several lcores share the processors that this process may use, so the suite runs on one as well. */
static void lcore_option(char *option, size_t size)
{
	cpu_set_t cpus;
	int length;

	sched_getaffinity(0, sizeof(cpus), &cpus);
	length = snprintf(option, size, "--lcores=(0-%d)@(", LCORES - 1);
	for (int cpu = 0, first = 1; cpu < CPU_SETSIZE && length < (int)size - 8; cpu++)
		if (CPU_ISSET(cpu, &cpus)) {
			length += snprintf(option + length, size - (size_t)length, first ? "%d" : ",%d", cpu);
			first = 0;
		}
	snprintf(option + length, size - (size_t)length, ")");
}

static void start_eal(const char *program)
{
	char lcores[1024], prefix[64];
	char *argv[] = {(char *)(uintptr_t)program,
	                "--no-huge",
	                "--no-shconf",
	                "--no-pci",
	                "--no-telemetry",
	                "-m",
	                "512",
	                lcores,
	                prefix,
	                "--log-level=lib.eal:warning",
	                NULL};

	snprintf(prefix, sizeof(prefix), "--file-prefix=tests-driver-%d", (int)getpid());
	lcore_option(lcores, sizeof(lcores));
	if (rte_eal_init((int)RTE_DIM(argv) - 1, argv) < 0) {
		fprintf(stderr, "EAL does not start\n");
		exit(2);
	}
}

static struct rte_mempool *make_pool(const char *name, unsigned int mbufs, uint16_t data_bytes)
{
	struct rte_mempool *made =
	        rte_pktmbuf_pool_create(name, mbufs, BURST, 0, data_bytes + RTE_PKTMBUF_HEADROOM, 0);

	if (made == NULL) {
		fprintf(stderr, "no memory for mempool %s\n", name);
		exit(2);
	}
	return made;
}

/* From here on the kernel refuses membarrier(2), as an old one or a strict container does. */
static void forbid_membarrier(void)
{
	struct sock_filter filter[] = {
	        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_membarrier, 0, 1),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = RTE_DIM(filter), .filter = filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		perror("seccomp");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	unsigned int passed = 0, run = 0;
	char name[128];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && strcmp(argv[1], "--no-membarrier") == 0) {
		forbid_membarrier();
		argv[1] = argv[0];
		argv++;
		argc--;
	}
	start_eal(argv[0]);
	pool = make_pool("pool", POOL_MBUFS, 2048);
	small_pool = make_pool("small", POOL_MBUFS, SMALL_DATA_BYTES);
	other_pool = make_pool("other", 1023, 2048);
	for (unsigned int i = 0; i < RTE_DIM(groups); i++)
		for (const struct driver_case *test = groups[i].cases; test->name != NULL; test++) {
			snprintf(name, sizeof(name), "%s: %s", groups[i].name, test->name);
			if (!is_selected(name, argc, argv))
				continue;
			for (const char *const *devargs = test->devargs; *devargs != NULL; devargs++, run++)
				passed += run_case(name, test->run, *devargs);
		}
	rte_mempool_free(pool);
	rte_mempool_free(small_pool);
	rte_mempool_free(other_pool);
	rte_eal_cleanup();
	printf("%u passed, %u failed\n", passed, run - passed);
	return run == 0 || passed != run;
}
