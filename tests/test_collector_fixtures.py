# SPDX-License-Identifier: BSD-3-Clause
"""Every file of the tool outputs gives the numbers that stand in it, or is refused with a clear line.

The expected values were read off the files by eye.
"""

from collections.abc import Sequence
from fnmatch import fnmatch

import pytest
from collector_samples import FIXTURES, needs_fixtures, read_file, values

from pollscope.collectors.parsing import ParseError
from pollscope.collectors.sample import Value

pytestmark = needs_fixtures

# None: this sample was not read off; "absent": there must be no value.
Wanted = float | str | None
Expected = tuple[str, str, Sequence[Wanted]]
Row = tuple[str, str, int | None, list[Expected]]
Refusal = tuple[str, str, str]

# (pattern, parser, number of readings or None, [(unit path, metric, values in order)])
IIO_TRAFFIC = [
    ("dma_write", [3096502000, 3096502007]),
    ("dma_read", [2986710000, 2986710000]),
    ("mmio_read", [0, 0]),
    ("mmio_write", [48213440, 48213440]),
]
IIO_ICX = [
    ("iotlb_lookups", [93018440, 93018440]),
    ("iotlb_misses", [1203320, 1203321]),
    ("walk_cache_4k_hits", [9999, 9999]),
    ("iommu_memory_accesses", [1500120, 1500120]),
]
IIO_SPR = [*IIO_ICX[:2], ("walk_cache_256t_hits", [9999, 9999]), IIO_ICX[3]]
IIO_SKX = [
    ("iotlb_hits", [93018440, 93018440]),
    ("iotlb_misses", [1203320, 1203321]),
    ("context_cache_misses", [9999, 9999]),
    ("walk_cache_l3_misses", [9999, 9999]),
    IIO_ICX[3],
]
CUT_TRAFFIC = [("dma_write", 3096000000), ("dma_read", 2986000000), ("mmio_write", 48000000)]
CUT_IOMMU = [("iotlb_misses", 1203000), ("iommu_memory_accesses", 1500000), ("context_cache_hits", 9999)]


def _iio(stack: str, iommu: Sequence[tuple[str, list[int]]]) -> list[Expected]:
    traffic: list[Expected] = [(f"socket0/{stack}/part0", *pair) for pair in IIO_TRAFFIC]
    return traffic + [(f"socket0/{stack}", *pair) for pair in iommu]


def _cut(stack: str, iommu: Sequence[tuple[str, int]], samples: int) -> list[Expected]:
    traffic: list[Expected] = [(f"socket0/{stack}/part0", name, [value] * samples) for name, value in CUT_TRAFFIC]
    return traffic + [(f"socket0/{stack}", name, [value] * samples) for name, value in iommu]


def _dram(socket0_read: float, system_total: float) -> list[Expected]:
    return [
        ("socket0/channel1", "dram_write", [1235.5e6, 1235.5e6]),
        ("socket1/channel1", "dram_write", [1.25e6, 1.25e6]),
        ("socket0", "dram_read", [socket0_read, None]),
        ("system", "memory_total", [system_total, None]),
    ]


CORE: list[Expected] = [
    ("system", "instructions_per_cycle", [1.25, 1.25]),
    ("system", "core_frequency", [2110000000, 2110000000]),
    ("system", "l3_misses", [10e6, 10e6]),
    ("system", "memory_read", [3.07e9, 3.07e9]),
    ("system", "local_memory_share", ["absent", "absent"]),
    ("socket0", "thermal_headroom", ["absent", "absent"]),
    ("socket1", "instructions", [7e9, 7e9]),
    ("socket1", "memory_write", [0.51e9, 0.51e9]),
    ("socket1", "package_energy", [0.0, 0.0]),
]
CORES: list[Expected] = [
    *CORE,
    ("socket1/core3", "l2_misses", [12e6, 12e6]),
    ("socket0/core1", "instructions_per_cycle", [1.0, 1.0]),
]

TABLE: list[Row] = [
    ("pcm-iio/codegen/*head2606_csv_icx.csv", "pcm-iio", 216, _iio("stack1:PCIe1", IIO_ICX)),
    ("pcm-iio/codegen/*semicolon_icx.csv", "pcm-iio", 108, _iio("stack1:PCIe1", IIO_ICX)),
    ("pcm-iio/codegen/*root-port_icx.csv", "pcm-iio", 108, _iio("stack1:PCIe1", IIO_ICX)),
    ("pcm-iio/codegen/*human-readable_icx.csv", "pcm-iio", 108, _cut("stack1:PCIe1", CUT_IOMMU, 2)),
    ("pcm-iio/codegen/*2502_csv_icx.csv", "pcm-iio", 216, _iio("stack1:PCIe1", IIO_ICX)),
    ("pcm-iio/codegen/*csv_skx_clx.csv", "pcm-iio", 120, _iio("stack1:PCIe0", IIO_SKX)),
    ("pcm-iio/codegen/*csv_spr.csv", "pcm-iio", 360, _iio("stack1:DMI", IIO_SPR)),
    ("pcm-iio/codegen/*csv_emr.csv", "pcm-iio", 360, _iio("stack1:PCIe3", IIO_SPR)),
    ("pcm-iio/codegen/*csv_gnr.csv", "pcm-iio", 72, _iio("stack1:PCIe1", IIO_SPR)),
    ("pcm-iio/codegen/*text_icx.txt", "pcm-iio", 108, _cut("stack1:PCIe1", CUT_IOMMU, 2)),
    ("pcm-iio/codegen/*text_skx_clx.txt", "pcm-iio", 60, _cut("stack1:PCIe0", CUT_IOMMU[:2], 2)),
    ("pcm-iio/codegen/*text_spr.txt", "pcm-iio", 180, _cut("stack1:DMI", CUT_IOMMU, 2)),
    ("pcm-iio/codegen/*text_emr.txt", "pcm-iio", 180, _cut("stack1:PCIe3", CUT_IOMMU, 2)),
    ("pcm-iio/codegen/*text_gnr.txt", "pcm-iio", 36, _cut("stack1:PCIe1", CUT_IOMMU, 2)),
    (
        "pcm-memory/codegen/*csv_default_bdx_4ch_2inactive.csv",
        "pcm-memory",
        22,
        [
            *_dram(4694.61e6, 7194.36e6),
            ("socket0/channel2", "dram_read", ["absent", "absent"]),
            ("socket1", "partial_writes", [1, 1001]),
        ],
    ),
    (
        "pcm-memory/codegen/*csv_default_skx_6ch_2inactive.csv",
        "pcm-memory",
        30,
        [
            *_dram(9408.71e6, 14439.71e6),
            ("socket0/channel5", "dram_read", ["absent", "absent"]),
            ("socket0/channel4", "dram_read", [2358.68e6, 2359.68e6]),
        ],
    ),
    (
        "pcm-memory/codegen/*csv_default_clx_6ch.csv",
        "pcm-memory",
        30,
        [
            *_dram(14122.82e6, 21685.07e6),
            ("system", "pmm_write", [0, 0]),
            ("socket1", "imc31_nm_read_hit_rate", [0, 0]),
        ],
    ),
    (
        "pcm-memory/codegen/*csv_partial_clx_6ch.csv",
        "pcm-memory",
        30,
        [*_dram(14122.82e6, 21685.07e6), ("socket0", "partial_writes", [0, 1000])],
    ),
    ("pcm-memory/codegen/*csv_default_???_8ch.csv", "pcm-memory", 38, _dram(18856.42e6, 28981.42e6)),
    (
        "pcm-memory/codegen/*csv_partial_???_8ch.csv",
        "pcm-memory",
        38,
        [*_dram(18856.42e6, 28981.42e6), ("socket1", "partial_writes", [1, 1001])],
    ),
    (
        "pcm-memory/codegen/*cxlread_only.csv",
        "pcm-memory",
        38,
        [*_dram(18856.42e6, 28981.42e6), ("system", "cxl_read", [7.5e6, 7.5e6])],
    ),
    ("pcm-memory/codegen/*csv_default_gnr_12ch.csv", "pcm-memory", 54, _dram(28362.63e6, 43676.13e6)),
    (
        "pcm-memory/codegen/*csv_default_gnr_12ch_4inactive.csv",
        "pcm-memory",
        54,
        [
            *_dram(18856.42e6, 28981.42e6),
            ("socket1/channel11", "dram_write", ["absent", "absent"]),
            ("socket0", "nm_misses", [0, 0]),
        ],
    ),
    (
        "pcm-memory/codegen/*text_default_clx_6ch.txt",
        "pcm-memory",
        258,
        [
            ("socket1", "imc31_nm_read_hit_rate", [0, 0]),
            ("socket0/channel5", "dram_read", [2361.93e6, 2362.93e6]),
            ("socket1", "dram_write", [16.5e6, 16.5e6]),
            ("system", "memory_total", [21685.07e6, None]),
        ],
    ),
    (
        "pcm-memory/codegen/*text_default_icx_8ch_2inactive.txt",
        "pcm-memory",
        130,
        [
            ("socket0/channel5", "dram_read", [2361.93e6, 2362.93e6]),
            ("socket0/channel6", "dram_read", []),
            ("socket0", "dram_write", [7422e6, 7422e6]),
            ("system", "memory_total", [21685.07e6, None]),
        ],
    ),
    (
        "pcm-memory/codegen/*text_default_spr_8ch.txt",
        "pcm-memory",
        162,
        [("socket1/channel5", "dram_read", [28.75e6, 29.75e6]), ("system", "memory_total", [28981.42e6, None])],
    ),
    (
        "pcm-memory/codegen/*text_partial_spr_8ch.txt",
        "pcm-memory",
        86,
        [
            ("socket0/channel7", "dram_write", [1241.5e6, 1241.5e6]),
            ("socket1", "partial_writes", [1, 1001]),
            ("system", "memory_write", [9934e6, 9934e6]),
        ],
    ),
    (
        "pcm-memory/codegen/*text_default_gnr_12ch.txt",
        "pcm-memory",
        130,
        [
            ("socket0", "nm_hit_rate", [0, 0]),
            ("socket0", "dram_write", [14880e6, 14880e6]),
            ("system", "memory_total", [43676.13e6, None]),
        ],
    ),
    ("pcm-pcie/codegen/*csv_icx.csv", "pcm-pcie", 4, [("socket1", "itomcachenear", [3290, 4002])]),
    (
        "pcm-pcie/codegen/*csv_B_icx.csv",
        "pcm-pcie",
        4,
        [("socket0", "pcie_read_bytes", [632240512, 1264338816]), ("socket1", "pcie_write_bytes", [967168, 1058304])],
    ),
    (
        "pcm-pcie/codegen/*csv_e_B_icx.csv",
        "pcm-pcie",
        12,
        [
            ("socket0", "itom", [9887646, 19764182]),
            ("socket0", "itom_miss", [4942712, 9880980]),
            ("socket0", "itom_hit", [4944934, 9883202]),
            ("socket1", "pcie_write_bytes_hit", [625792, 671360]),
            ("socket0", "wil_hit", ["absent", "absent"]),
        ],
    ),
    (
        "pcm-pcie/codegen/*text_e_B_icx.txt",
        "pcm-pcie",
        14,
        [
            ("socket0", "pcirdcur_hit", [4940000, 9878000]),
            ("system", "itomcachenear", [14000000, 24000000]),
            ("socket1", "ucrdf", [4978, 5334]),
        ],
    ),
    (
        "pcm-pcie/codegen/*csv_skx.csv",
        "pcm-pcie",
        4,
        [("socket0", "rfo", [155555442] * 2), ("socket1", "wil", [9968] * 2)],
    ),
    ("pcm-pcie/codegen/*csv_B_skx.csv", "pcm-pcie", 4, [("socket0", "pcie_read_bytes", [33185160960] * 2)]),
    (
        "pcm-pcie/codegen/*csv_e_B_skx.csv",
        "pcm-pcie",
        12,
        [
            ("socket0", "pcie_write_bytes", [17698752512] * 2),
            ("socket0", "pcie_write_bytes_hit", [9955548288] * 2),
            ("socket1", "wil_miss", [8722] * 2),
            ("socket1", "wil_hit", [1246] * 2),
        ],
    ),
    ("pcm-pcie/codegen/*text_e_B_skx.txt", "pcm-pcie", 14, [("socket0", "pcie_read_bytes", [33 * 10**9] * 2)]),
    ("pcm-pcie/codegen/*csv_haswellx.csv", "pcm-pcie", 4, [("socket0", "crd", [120987566] * 2)]),
    ("pcm-pcie/codegen/*csv_B_haswellx.csv", "pcm-pcie", 4, [("socket0", "pcie_write_bytes", [9955548288] * 2)]),
    (
        "pcm-pcie/codegen/*csv_e_B_haswellx.csv",
        "pcm-pcie",
        12,
        [("socket1", "pcirdcur_hit", [1246] * 2), ("socket0", "pcie_read_bytes_miss", [14380236416] * 2)],
    ),
    (
        "pcm-pcie/codegen/*text_e_B_haswellx.txt",
        "pcm-pcie",
        14,
        [("socket0", "pcie_read_bytes_miss", [14 * 10**9] * 2), ("system", "pcirdcur", [51 * 10**6] * 2)],
    ),
    ("pcm-pcie/codegen/*csv_jaketown.csv", "pcm-pcie", 4, [("socket0", "pciewilf", [103703628, 74074020])]),
    (
        "pcm-pcie/codegen/*csv_B_jaketown.csv",
        "pcm-pcie",
        4,
        [("socket0", "pcie_write_bytes", [18014801664, 17066654208])],
    ),
    ("pcm-pcie/codegen/*csv_e_B_jaketown.csv", "pcm-pcie", 12, [("socket0", "pcienswrf", [88888824, 59259216])]),
    (
        "pcm-pcie/codegen/*text_e_B_jaketown.txt",
        "pcm-pcie",
        14,
        [("socket0", "pciewilf_miss", [88 * 10**6, 59 * 10**6])],
    ),
    ("pcm-pcie/codegen/*csv_[segs][mnpr][rf].csv", "pcm-pcie", 4, [("socket0", "itomcachenear", [22225539, 44447745])]),
    (
        "pcm-pcie/codegen/*csv_B_[segs][mnpr][rf].csv",
        "pcm-pcie",
        4,
        [("socket0", "pcie_read_bytes", [948360768, None])],
    ),
    (
        "pcm-pcie/codegen/*csv_e_B_[segs][mnpr][rf].csv",
        "pcm-pcie",
        12,
        [("socket0", "wcil", [14814804, 25925907]), ("socket0", "wcilf_hit", ["absent", "absent"])],
    ),
    (
        "pcm-pcie/codegen/*text_e_B_[segs][mnpr][rf].txt",
        "pcm-pcie",
        14,
        [("socket0", "pcirdcur_miss", [7407000, None]), ("socket0", "pcie_write_bytes", [2371 * 10**6, None])],
    ),
    ("pcm-core/codegen/*_nc_*.csv", "pcm", 6, CORE),
    ("pcm-core/codegen/*2s4c.csv", "pcm", 14, CORES),
    (
        "pcm-sensor-server/*.txt",
        "pcm-sensor-server",
        None,
        [
            ("system", "measurement_interval", [1.000123]),
            ("socket0/core0/thread0", "instructions_retired_any", [1000000000]),
            ("socket0/core0/thread0", "thermal_headroom", ["absent"]),
            ("socket0/core0/thread0", "cstateresidency.0", [1.0]),
        ],
    ),
    (
        "perf-stat/perf61_j_default_vm.json",
        "perf",
        8,
        [("system", "task-clock", [0.000855526]), ("system", "page-faults", [75]), ("system", "cycles", ["absent"])],
    ),
    (
        "perf-stat/perf61_j_I100_vm.json",
        "perf",
        12,
        [
            ("system", "task-clock", [0.000736233, "absent", "absent", 0.000061455]),
            ("system", "context-switches", [1, "absent", "absent", 0]),
        ],
    ),
    (
        "perf-stat/perf61_j_aA_vm.json",
        "perf",
        6,
        [("cpu0", "context-switches", [20]), ("cpu1", "msr/tsc/", [524808994]), ("cpu1", "cycles", ["absent"])],
    ),
    (
        "perf-stat/perf61_j_persocket_vm.json",
        "perf",
        3,
        [("socket0", "context-switches", [38]), ("socket0", "msr/tsc/", [1051184560])],
    ),
    (
        "perf-stat/perf61_x_default_vm.csv",
        "perf",
        8,
        [("system", "task-clock", [0.00092]), ("system", "page-faults", [75]), ("system", "branches", ["absent"])],
    ),
    (
        "perf-stat/perf61_xsemi_default_vm.csv",
        "perf",
        8,
        [("system", "task-clock", [0.00096]), ("system", "page-faults", [77])],
    ),
    (
        "perf-stat/perf61_x_I100_vm.csv",
        "perf",
        16,
        [
            ("system", "task-clock", [0.00087, "absent", "absent", 0.00012]),
            ("system", "task-clock.running_share", [1, "absent", "absent", 1]),
        ],
    ),
    (
        "perf-stat/perf61_x_aA_vm.csv",
        "perf",
        6,
        [("cpu0", "context-switches", [23]), ("cpu1", "msr/tsc/", [525191550])],
    ),
    (
        "perf-stat/perf61_x_persocket_vm.csv",
        "perf",
        3,
        [("socket0", "context-switches", [36]), ("socket0", "msr/tsc/", [1049994348])],
    ),
    (
        "perf-stat/perf61_x_r3_vm.csv",
        "perf",
        2,
        [("system", "task-clock", [0.00097]), ("system", "context-switches", [1])],
    ),
    (
        "ethtool/ethtool_S_mlx5_core_ethq.txt",
        "ethtool",
        None,
        [
            ("port", "rx_out_of_buffer", [0]),
            ("port", "nic.rx_bytes", [2202570777997]),
            ("port", "nic.pcie_read_stalled_percent", [0]),
            ("port", "rx_64_bytes_phy", [416040]),
            ("port/rx_queue0", "packets", [53947906]),
            ("port/tx_queue0", "tso_bytes", [254762689311]),
            ("port", "tx_pci_signal_integrity", [34]),
        ],
    ),
    (
        "ethtool/ethtool_S_i40e_ethq.txt",
        "ethtool",
        25,
        [
            ("port", "nic.rx_bytes", [30388004820195]),
            ("port/rx_queue0", "packets", [64128515158]),
            ("port", "nic.rx_pause", [0]),
        ],
    ),
    (
        "ethtool/ethtool_S_i40e-v2.3.2k_ethq.txt",
        "ethtool",
        129,
        [("port", "nic.rx_dropped", [179160]), ("port/tx_queue0", "packets", [36459363750])],
    ),
    (
        "ethtool/ethtool_S_ice_ethq.txt",
        "ethtool",
        257,
        [
            ("port", "nic.rx_packets", [12117645]),
            ("port", "nic.tx_bytes", [74057390445]),
            ("port", "nic.rx_port_discards", [0]),
        ],
    ),
    (
        "ethtool/ethtool_S_iavf_ethq.txt",
        "ethtool",
        33,
        [
            ("port", "nic.rx_bytes", [7042004]),
            ("port/rx_queue8", "packets", [69038]),
            ("port/tx_queue14", "bytes", [6765832]),
        ],
    ),
    (
        "ethtool/ethtool_S_e1000e_ethq.txt",
        "ethtool",
        1,
        [("port", "nic.rx_packets", [567425]), ("port", "nic.rx_port_discards", [0]), ("port", "tx_smbus", [1])],
    ),
    (
        "ethtool/ethtool_S_bnxt_en_ethq.txt",
        "ethtool",
        None,
        [
            ("port/rx_queue0", "discards", [11763190]),
            ("port", "nic.rx_no_descriptor", [655430134]),
            ("port", "nic.rx_port_discards", [49337]),
            ("port/tx_queue0", "ucast_bytes", [1462856966524]),
        ],
    ),
    (
        "ethtool/ethtool_S_sfc_ethq.txt",
        "ethtool",
        None,
        [
            ("port/rx_queue0", "packets", [232]),
            ("port", "port_rx_dp_di_dropped_packets", [27]),
            ("port", "nic.rx_packets", [1653]),
        ],
    ),
    ("ethtool/ethtool_S_ena_ethq.txt", "ethtool", None, [("port", "ena_admin_q_completed_cmd", [28])]),
    (
        "ethtool/ethtool_S_virtio_net_ethq.txt",
        "ethtool",
        5,
        [("port/rx_queue1", "bytes", [4819127125]), ("port/tx_queue0", "packets", [3558968])],
    ),
    (
        "ethtool/ethtool_S_virtio_net_k618.txt",
        "ethtool",
        3,
        [("port", "rx_kicks", [2711]), ("port/tx_queue0", "kicks", [6649]), ("port", "nic.rx_dropped", [0])],
    ),
    (
        "ethtool/ethtool_c_*.txt",
        "ethtool-settings",
        1,
        [("port", "adaptive_rx", ["off"]), ("port", "adaptive_tx", ["absent"]), ("port", "rx_frames", [1])],
    ),
    (
        "ethtool/ethtool_g_*.txt",
        "ethtool-settings",
        1,
        [("port", "maximum_rx", [256]), ("port", "current_rx_mini", ["absent"]), ("port", "current_tx_push", ["off"])],
    ),
    (
        "ethtool/ethtool_i_*.txt",
        "ethtool-settings",
        1,
        [
            ("port", "driver", ["virtio_net"]),
            ("port", "bus_info", ["0000:00:03.0"]),
            ("port", "firmware_version", ["absent"]),
        ],
    ),
    (
        "dpdk-telemetry/testpmd22*/ethdev_stats_0.json",
        "dpdk-telemetry",
        1,
        [("port", "ipackets", [734411648]), ("port", "nic.tx_packets", [734007648]), ("port", "imissed", [0])],
    ),
    (
        "dpdk-telemetry/testpmd22*/ethdev_stats_0_semicolon_x.json",
        "dpdk-telemetry",
        1,
        [("port", "ipackets", [734427264])],
    ),
    (
        "dpdk-telemetry/testpmd22*/ethdev_xstats_0.json",
        "dpdk-telemetry",
        3,
        [("port/rx_queue0", "packets", [734416000]), ("port", "rx_good_packets", [734416000])],
    ),
    (
        "dpdk-telemetry/testpmd22*/ethdev_xstats_0_hide*.json",
        "dpdk-telemetry",
        3,
        [("port/tx_queue0", "packets", [734015968])],
    ),
    ("dpdk-telemetry/testpmd26*/ethdev_stats_0.json", "dpdk-telemetry", 1, [("port", "nic.rx_bytes", [9049561088])]),
    (
        "dpdk-telemetry/testpmd26*/ethdev_xstats_0.json",
        "dpdk-telemetry",
        3,
        [("port/rx_queue0", "bytes", [9049700352])],
    ),
    (
        "dpdk-telemetry/testpmd26*/ethdev_xstats_0_hide*.json",
        "dpdk-telemetry",
        3,
        [("port/tx_queue0", "packets", [140939808])],
    ),
    (
        "dpdk-telemetry/testpmd26*/eal_lcore_usage.json",
        "dpdk-telemetry",
        1,
        [("lcore1", "busy_cycles", [7612437032]), ("lcore1", "busy_share", [0.955044194])],
    ),
    (
        "dpdk-telemetry/testpmd26*/eal_lcore_info_1.json",
        "dpdk-telemetry",
        1,
        [("lcore1", "total_cycles", [7970562786])],
    ),
    ("dpdk-telemetry/testpmd22*/eal_lcore_*.json", "dpdk-telemetry", 1, []),
    ("dpdk-telemetry/*/ethdev_info_0.json", "dpdk-telemetry", 1, [("port", "ethdev.info.mtu", [1500])]),
    (
        "dpdk-telemetry/*/ethdev_link_status_0.json",
        "dpdk-telemetry",
        1,
        [("port", "ethdev.link_status.status", ["UP"]), ("port", "ethdev.link_status.speed", [10000])],
    ),
    (
        "dpdk-telemetry/*/mempool_info_mb_pool_0.json",
        "dpdk-telemetry",
        1,
        [("mempool:mb_pool_0", "mempool.info.populated_size", [4096])],
    ),
    ("dpdk-telemetry/*/info.json", "dpdk-telemetry", 1, [("application", "info.max_output_len", [16384])]),
    ("dpdk-telemetry/*/_initial.json", "dpdk-telemetry", None, []),
    ("dpdk-telemetry/*/ethdev_list.json", "dpdk-telemetry", 1, [("application", "ethdev.list", ["[0, 1]"])]),
    ("dpdk-telemetry/*/nosuch.json", "dpdk-telemetry", 1, [("application", "nosuch", ["absent"])]),
    ("dpdk-telemetry/*/ethdev_xstats.json", "dpdk-telemetry", 1, [("application", "ethdev.xstats", ["absent"])]),
    ("dpdk-telemetry/*/ethdev_xstats_99.json", "dpdk-telemetry", 1, [("application", "ethdev.xstats", ["absent"])]),
    (
        "dpdk-telemetry/*/ethdev_rx_queue_0_0.json",
        "dpdk-telemetry",
        1,
        [("application", "ethdev.rx_queue", ["absent"])],
    ),
    ("dpdk-telemetry/*/eal_lcore_list.json", "dpdk-telemetry", 1, [("application", "eal.lcore.list", ["[0, 1]"])]),
    ("dpdk-telemetry/*/eal_heap_list.json", "dpdk-telemetry", 1, [("application", "eal.heap_list", ["[0]"])]),
    ("dpdk-telemetry/*/eal*_params.json", "dpdk-telemetry", 1, []),
    ("dpdk-telemetry/*/mempool_list.json", "dpdk-telemetry", 1, [("application", "mempool.list", ['["mb_pool_0"]'])]),
    ("dpdk-telemetry/*/help__ethdev_xstats.json", "dpdk-telemetry", 1, []),
    ("dpdk-telemetry/*/root.json", "dpdk-telemetry", 1, []),
    (
        "turbostat/turbostat_2s*.txt",
        "turbostat",
        45,
        [
            ("system", "package_power", [431.32, 223.32, 300.0]),
            ("cpu0", "busy_share", [0.5805] * 3),
            ("socket1", "uncore_frequency", [2.3e9, 2.4e9, 2.4e9]),
            ("cpu193", "instructions_per_cycle", [0.30] * 3),
            ("socket0/core1", "core_temperature", [50] * 3),
        ],
    ),
    (
        "turbostat/turbostat_nopackage*.txt",
        "turbostat",
        22,
        [
            ("system", "package_throttled_share", ["absent", 0]),
            ("system", "llc_hit_share", [0.8703, 0.9508]),
            ("cpu128", "interrupts", [2248, None]),
            ("cpu0", "core_c1_residency", [0.03, None]),
            ("cpu128", "core_c1_residency", [0.03, None]),
        ],
    ),
    (
        "iommu/dmesg_vm*.txt",
        "iommu",
        1,
        [
            ("system", "translation", ["absent"]),
            ("system", "log.default_domain", ["Translated"]),
            ("system", "log.invalidation", ["lazy"]),
        ],
    ),
    ("cpu/lscpu_J_vm.json", "lscpu", 1, [("system", "model", [167]), ("system", "hypervisor_vendor", ["KVM"])]),
    (
        "cpu/sysfs_cpu_vm_k618.txt",
        "cpufreq",
        31,
        [
            ("cpu0/state1", "entries", [331191]),
            ("cpu0/state1", "residency", [2709.995375]),
            ("system", "isolated", [""]),
            ("system", "smt.control", ["notsupported"]),
        ],
    ),
]

REFUSED: list[Refusal] = [
    ("pcm-iio/codegen/*BROKEN_icx.csv", "pcm-iio", "delimiter '||'"),
    ("pcm-iio/*help.txt", "pcm-iio", "no pcm-iio header"),
    ("pcm-iio/*stderr.txt", "pcm-iio", "no PMU in this virtual machine"),
    ("pcm-iio/*stdout.txt", "pcm-iio", "no pcm-iio header"),
    ("pcm-pcie/*help.txt", "pcm-pcie", "no pcm-pcie header"),
    ("pcm-pcie/*stderr.txt", "pcm-pcie", "no PMU in this virtual machine"),
    ("pcm-pcie/*stdout.txt", "pcm-pcie", "no pcm-pcie header"),
    ("pcm-memory/*help.txt", "pcm-memory", "no pair of pcm-memory header rows"),
    ("pcm-memory/*stderr.txt", "pcm-memory", "no PMU in this virtual machine"),
    ("pcm-memory/*stdout.txt", "pcm-memory", "no pair of pcm-memory header rows"),
    ("pcm-core/*stderr.txt", "pcm", "no PMU in this virtual machine"),
    ("pcm-core/*stdout.txt", "pcm", "no pair of pcm header rows"),
    ("pcm-power/*stderr.txt", "pcm-power", "no PMU in this virtual machine"),
    ("pcm-power/*stdout.txt", "pcm-power", "no line of a socket"),
    ("perf-stat/perf61_err_power_missing.txt", "perf", "perf does not know an event"),
    ("perf-stat/perf61_err_uncore_iio_missing.txt", "perf", "uncore_iio_0/event=0x83"),
    ("perf-stat/perf61_err_unknown_event.txt", "perf", "unc_cha_tor_inserts.io_pcirdcur"),
    ("perf-stat/perf61_text_default_vm.txt", "perf", "human-readable text"),
    ("perf-iostat/*.txt", "perf-iostat", "no uncore IIO PMU"),
    ("dpdk-telemetry/testpmd22.11_net_null_log.txt", "dpdk-telemetry", "no JSON"),
]


def files() -> list[str]:
    """Every output (not the notes on where it is from), relative to the folder."""
    if not FIXTURES.is_dir():
        return []
    paths = (path for path in sorted(FIXTURES.rglob("*")) if path.is_file() and path.name != "README.md")
    names = (
        str(p.relative_to(FIXTURES)) for p in paths if not p.name.endswith(".source.txt") and p.name != "SOURCE.txt"
    )
    # published tables of results: no collector reads such
    return [name for name in names if not name.startswith("ddio/")]


def entries(name: str) -> tuple[list[Row], list[Refusal]]:
    return [row for row in TABLE if fnmatch(name, row[0])], [row for row in REFUSED if fnmatch(name, row[0])]


@pytest.mark.parametrize("name", files())
def test_file_gives_its_numbers_or_is_refused(name: str) -> None:
    expected, refused = entries(name)
    assert expected or refused, f"no expected values for {name}"
    if refused:
        with pytest.raises(ParseError, match=refused[0][2].replace("|", r"\|")) as error:
            read_file(refused[0][1], FIXTURES / name)
        assert name.rsplit("/", 1)[1] in error.value.where
        assert error.value.remedy
        return
    _, parser, count, numbers = expected[0]
    readings = read_file(parser, FIXTURES / name)
    assert count is None or len(readings) == count
    for unit_path, metric, wanted in numbers:
        found = values(readings, unit_path, metric)
        assert len(found) == len(wanted), f"{unit_path} {metric}: {found}"
        for one, other in zip(found, wanted, strict=True):
            assert _fits(one, other), f"{unit_path} {metric}: {found} instead of {wanted}"


def _fits(found: Value, wanted: Wanted) -> bool:
    """None in the table: this sample was not read off; "absent": there must be no value."""
    if wanted is None:
        return True
    if wanted == "absent":
        return found is None
    return found == wanted if isinstance(wanted, str) else found == pytest.approx(wanted)


def test_every_row_of_the_tables_has_a_file() -> None:
    names = files()
    patterns = [row[0] for row in TABLE] + [row[0] for row in REFUSED]
    unused = [pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in names)]
    assert not unused
