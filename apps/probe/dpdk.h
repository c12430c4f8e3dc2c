/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The DPDK functions that the probe calls. It is linked to no DPDK library: the symbols are weak and found in the program that loads
 * it. So a program of another DPDK series loads it as well, and the probe can refuse by name (commands.c) instead of failing
 * in the dynamic linker or bringing a second DPDK into the process. Thread-local symbols cannot be weak: rte_errno and
 * rte_lcore_id() are out of reach.
 */
#ifndef PROBE_DPDK_H
#define PROBE_DPDK_H

#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_telemetry.h>
#include <rte_version.h>

#pragma weak rte_eth_add_rx_callback
#pragma weak rte_eth_add_tx_callback
#pragma weak rte_eth_dev_callback_register
#pragma weak rte_eth_dev_is_valid_port
#pragma weak rte_eth_remove_rx_callback
#pragma weak rte_eth_remove_tx_callback
#pragma weak rte_free
#pragma weak rte_get_tsc_hz
#pragma weak rte_lcore_index
#pragma weak rte_tel_data_add_dict_container
#pragma weak rte_tel_data_add_dict_int
#pragma weak rte_tel_data_add_dict_string
#pragma weak rte_tel_data_alloc
#pragma weak rte_tel_data_start_array
#pragma weak rte_tel_data_start_dict
#pragma weak rte_telemetry_register_cmd
#pragma weak rte_version
#pragma weak rte_version_month
#pragma weak rte_version_year

#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
#pragma weak rte_tel_data_add_array_uint
#pragma weak rte_tel_data_add_dict_uint
#define PROBE_TEL_UNSIGNED RTE_TEL_UINT_VAL
#define probe_add_array    rte_tel_data_add_array_uint
#define probe_add_dict     rte_tel_data_add_dict_uint
#else /* their names before DPDK 23.03 */
#pragma weak rte_tel_data_add_array_u64
#pragma weak rte_tel_data_add_dict_u64
#define PROBE_TEL_UNSIGNED RTE_TEL_U64_VAL
#define probe_add_array    rte_tel_data_add_array_u64
#define probe_add_dict     rte_tel_data_add_dict_u64
#endif

#endif
