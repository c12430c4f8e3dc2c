# SPDX-License-Identifier: BSD-3-Clause
"""Forms that options, versions and drivers give to the tools' outputs: the small texts of tests/collectors, read off by
eye, and what is refused.
"""

import json
import re
from collections.abc import Sequence

import pytest
from collector_samples import OWN, PARSERS, read_file, read_text, reason, values

from pollscope.collectors.parsers import nic_tools, qemu_vtd
from pollscope.collectors.parsers.pcm import power
from pollscope.collectors.parsers.perf import stat
from pollscope.collectors.parsing import Origin, ParseError
from pollscope.collectors.sample import Kind, Value

TABLE = [
    ("amd-uprof-pcm.csv", "system", "dram_traffic", [227.58e9, 230.82e9, 221.4e9, 0.05e9]),
    ("amd-uprof-pcm.csv", "system", "dram_write", [112.85e9, 114.7e9, 111.7e9, 0.02e9]),
    ("amd-uprof-pcm.stamped.csv", "system", "eff_freq", [1579.56e6]),
    ("amd-uprof-pcm.stamped.csv", "system", "l2_hit_share", [0.9136]),
    ("amd-uprof-pcm.packages.csv", "system", "l3_miss_latency", [218.41e-9, 208.3e-9]),
    ("amd-uprof-pcm.packages.csv", "socket0", "l3_accesses", [745742, None]),
    ("amd-uprof-pcm.packages.csv", "socket0", "l3_miss_per_instruction", [6e-5, 5e-5]),
    ("amd-uprof-pcm.packages.csv", "socket0", "dram_traffic", [11.5e9, 11.6e9]),
    ("amd-uprof-pcm.packages.csv", "socket0/channelA", "dram_write", [0.88e9, 0.89e9]),
    ("amd-uprof-pcm.packages.csv", "socket0", "total_pcie_rd_bandwidth", [1.25e9, 1.5e9]),
    ("pcm.text.txt", "socket0/core0", "l3_misses", [18000, 21000]),
    ("pcm.text.txt", "socket1/core55", "l3_occupancy", [30688 * 1024]),
    ("pcm.text.txt", "socket1", "instructions_per_cycle", [2.29]),
    ("pcm.text.txt", "system", "thermal_headroom", [None]),
    ("pcm.text.txt", "system", "core_c1_residency", [0.8042]),
    ("pcm.text.txt", "socket1", "upi0_in", [8738000]),
    ("pcm.text.txt", "socket1", "upi1_out", [31000000]),
    ("pcm.text.txt", "socket1", "local_memory_share", [0.53]),
    ("pcm.text.txt", "socket1", "local_memory_traffic", [6e6]),
    ("pcm.text.txt", "socket1", "remote_memory_traffic", [12e6]),
    ("pcm.text.txt", "socket0", "llc_read_miss_latency", [152.39e-9]),
    ("pcm.text.txt", "system", "package_energy", [194.23]),
    ("pcm.text-client.txt", "system", "core_c7_residency", [0.6992]),
    ("pcm.text-client.txt", "socket0", "io_memory_traffic", [0.15e9]),
    ("pcm-core.txt", "cpu39", "cycles", [41 * 10**9]),
    ("pcm-core.txt", "system", "instructions", [1064 * 10**9]),
    ("pcm-core.txt", "cpu0", "event3", [10 * 10**9]),
    ("perf.umc.csv", "system", "umc_mem_read_bandwidth", [16001.3e6, 357.3e6]),
    ("perf.umc.csv", "system", "umc_cas_cmd.rd", [250021044, 5602648]),
    ("perf.umc.csv", "system", "slc_miss_rate", [29.9]),
    ("perf.cgroups.csv", "socket0/cgroup:system.slice/dut.service", "task-clock", [0.15236]),
    (
        "perf.cgroups.csv",
        "socket0/cgroup:system.slice/dut.service",
        "uncore_iio_0/event=0x83,umask=0x1/",
        [17],
    ),
    ("perf.cgroups.csv", "socket0/cgroup:user.slice", "cycles", [300]),
    ("perf.cgroups.csv", "socket0", "cycles", [None]),
    ("perf.cgroups.json", "socket0/cgroup:user.slice", "context-switches", [2513]),
    ("perf.cgroups.json", "socket0", "context-switches", [41]),
    ("perf.metric-only.csv", "socket0", "insn per cycle", [0.5, None]),
    ("perf.metric-only.csv", "socket1", "insn per cycle", [1.75]),
    ("perf.metric-only.csv", "socket1", "branch-misses of all branches", [0.75]),
    ("perf.metric-only.json", "cpu3", "insn per cycle", [0.5, 0.52]),
    ("perf.metric-only.json", "cpu3", "tma_retiring", [12.5, 12.6]),
    ("perf.metric-only.json", "cpu3", "GHz", [None, 2.1]),
    ("perf.repeats.csv", "socket0/die0/core0", "task-clock", [0.15236]),
    ("perf.repeats.csv", "socket0/die0/core1", "context-switches", [154]),
    ("perf.repeats.csv", "socket0/die0/level3/cache1", "page-faults", [77]),
    ("perf.repeats.csv", "thread:worker-7-15087", "page-faults", [3]),
    ("ethtool.mana.txt", "port:mana/rx_queue1", "bytes", [128000]),
    ("ethtool.mana.txt", "port:mana/tx_queue0", "tso_bytes", [1500]),
    ("ethtool.mana.txt", "port:mana", "nic.rx_no_descriptor", [17]),
    ("ethtool.ionic.txt", "port:ionic/rx_queue1", "pkts", [2000]),
    ("ethtool.ionic.txt", "port:ionic/tx_queue0", "pkts", [500]),
    ("ethtool.ionic.txt", "port:ionic", "tx_pripause_0_1us_count", [9]),
    ("ethtool.ionic.txt", "port:ionic", "nic.rx_packets", [3010]),
    ("ethtool.ionic.txt", "port:ionic", "nic.rx_bytes", [192640]),
    ("ethtool.ionic.txt", "port:ionic", "nic.rx_pause", [4]),
    ("ethtool.vmxnet3.txt", "port:vmxnet3/tx_queue0", "TSO pkts tx", [11]),
    ("ethtool.vmxnet3.txt", "port:vmxnet3/tx_queue1", "ucast bytes tx", [64000]),
    ("ethtool.vmxnet3.txt", "port:vmxnet3/rx_queue0", "pkts rx OOB", [3]),
    ("ethtool.vmxnet3.txt", "port:vmxnet3", "tx timeout count", [2]),
    ("ethtool.drivers.txt", "port:drivers", "rx_64_bytes", [7]),
    ("ethtool.drivers.txt", "port:drivers/tx_queue3", "packets", [101]),
    ("ethtool.drivers.txt", "port:drivers/rx_queue2", "pktnum", [102]),
    ("ethtool.drivers.txt", "port:drivers/tx_queue0", "frames", [103]),
    ("ethtool.drivers.txt", "port:drivers/rx_queue5", "desc_enqueue", [104]),
    ("ethtool.drivers.txt", "port:drivers/tx_queue4", "pkts", [105]),
    ("ethtool.drivers.txt", "port:drivers/rx_queue6", "bytes", [106]),
    ("ethtool.drivers.txt", "port:drivers/rx_queue1", "rcv_pkts", [107]),
    ("ethtool.drivers.txt", "port:drivers/tx_queue1", "xmit_pkts", [108]),
    ("ethtool.drivers.txt", "port:drivers/rx_queue9", "InPackets", [109]),
    ("ethtool.drivers.txt", "port:drivers/tx_queue9", "OutPackets", [110]),
    ("ethtool.drivers.txt", "port:drivers/rx_queue8", "frames", [111]),
    ("ethtool.groups.txt", "port:groups", "eth-mac-OctetsReceivedOK", [46339]),
    ("neohost.table.txt", "device:table", "mtt_cache_l0_hits", [3495893]),
    ("neohost.table.txt", "device:table", "mtt_cache_l0_misses", [253014]),
    ("neohost.table.txt", "device:table", "rx_bandwidth", [0.2118e9 / 8]),
    ("neohost.table.txt", "device:table", "pcie_latency_mean", [1800e-9]),
    ("neohost.table.txt", "device:table", "pcie_stalled_reads", [12]),
    ("neohost.table.txt", "device:table", "pcie_inbound_bw_utilization", [87.4336]),
    ("neohost.table.txt", "device:table", "tx_packet_rate_bottleneck", [117.8848e6]),
    ("neohost.table.txt", "device:table", "line_transmitted_loop_back", [5]),
    ("neohost.table.txt", "device:table", "chip_frequency", [429996500]),
    ("ethtool.ena.txt", "port:ena", "conntrack_allowance_available", [136812]),
    ("pcm-sensor-server.units.txt", "socket0/core0/thread0", "l3_cache_occupancy", [7 * 1024]),
    ("pcm-sensor-server.units.txt", "socket0/core0/thread0", "local_memory_bandwidth", [5e6]),
    ("pcm-sensor-server.units.txt", "system", "measurement_interval", [1.000123]),
    ("pcm-sensor-server.units.txt", "socket0/core0/thread0", "cstateresidency.6", [0.25]),
    ("pcm-iio.apart.csv", "socket0/stack1:PCIe0", "iotlb_hits", [50, 51]),
    ("pcm-iio.apart.csv", "socket0/stack1:PCIe0", "iotlb_misses", [6, 7]),
    ("pcm-iio.apart.csv", "socket0/stack1:PCIe0/part1", "dma_read", [201, 211]),
    ("pcm-iio.apart.csv", "socket0/stack1:PCIe0/part1", "ib_write_transactions", [301, 311]),
    ("pcm-iio.behind.txt", "socket0/stack1:PCIe1/part0", "device", ["0000:17:00.0"]),
    ("pcm-iio.behind.txt", "socket0/stack1:PCIe1", "device", ["0000:18:00.0"]),
    ("perf.topdown.json", "cpu3", "tma_retiring", [12.5]),
    ("perf.topdown.json", "cpu3", "tma_frontend_bound", [20.5]),
    ("perf.topdown.json", "cpu3", "topdown-fe-bound", [41]),
    ("perf.topdown.json", "cpu3", "TOPDOWN.SLOTS", [2513]),
    ("perf.topdown.json", "cpu3", "IDQ.MITE_UOPS", [7]),
    ("perf.topdown.csv", "socket0", "tma_retiring", [12.5]),
    ("perf.topdown.csv", "socket0", "tma_frontend_bound", [20.5]),
    ("perf.topdown.csv", "socket0", "TOPDOWN.SLOTS", [2513]),
    ("perf.topdown.csv", "socket0", "topdown-fe-bound", [41]),
    ("mlxconfig.txt", "device", "LOG_MAX_OUTSTANDING_WQE", [None]),
    ("mlxconfig.txt", "device", "LOG_MAX_OUTSTANDING_WQE.next_boot", [7]),
    ("mlxconfig.extended.txt", "device:extended", "MAX_ACC_OUT_READ", [44]),
    ("mlxconfig.extended.txt", "device:extended", "MAX_ACC_OUT_READ.next_boot", [55]),
    ("mlxconfig.extended.txt", "device:extended", "MEMIC_SIZE_LIMIT.number", [1]),
    ("mlxconfig.extended.txt", "device:extended", "PCI_WR_ORDERING", ["force_relax"]),
    ("mlxconfig.extended.txt", "device:extended", "PCI_WR_ORDERING.next_boot", ["per_mkey"]),
    ("mlxconfig.extended.txt", "device:extended", "Cx6Dx_esp_mode", ["False"]),
    ("mlxconfig.extended.txt", "device:extended", "HOST_CHAINING_DESCRIPTORS", [None]),
    ("mlxconfig.extended.txt", "device:extended", "ADVANCED_POWER_SETTINGS", [None]),
    ("mlxconfig.extended.txt", "device:extended", "PCI_ATOMIC_MODE.number", [0]),
    ("mlxconfig.default.txt", "device:default", "CQE_COMPRESSION", [None]),
    ("mlxconfig.default.txt", "device:default", "CQE_COMPRESSION.next_boot.number", [1]),
    ("turbostat.summary.txt", "system", "package_power", [150.25]),
    ("turbostat.summary.txt", "system", "busy_share", [0.6]),
    ("turbostat.summary.txt", "system", "c6_entries", [300]),
    ("turbostat.client.txt", "socket0", "package_c10_residency", [0.035]),
    ("turbostat.client.txt", "socket0", "totl_c0_share", [0.2786]),
    ("turbostat.client.txt", "socket0", "gfx_rc6_share", [0.962]),
    ("turbostat.client.txt", "cpu4", "core_c1_residency", [0.2463]),
    ("turbostat.client.txt", "cpu4", "c6_requested_residency", [0.011]),
    ("turbostat.dies.txt", "socket0/die0/core3", "core_temperature", [54]),
    ("turbostat.dies.txt", "socket0/die1/core3", "core_temperature", [53]),
    ("turbostat.dies.txt", "socket0/die1", "die_c6_residency", [0.13]),
    ("turbostat.dies.txt", "socket0", "package_power", [150.25]),
    ("turbostat.show.txt", "socket0", "umhz0_0", [1800e6]),
    ("turbostat.show.txt", "cpu0", "poll_plus_entries", [2]),
    ("turbostat.show.txt", "cpu1", "c1_minus_entries", [4]),
    ("turbostat.show.txt", "cpu1", "c1_plus_entries", [7]),
    ("turbostat.summary-demotion.txt", "system", "c1_plus_entries", [11]),
    ("turbostat.summary-demotion.txt", "system", "poll_plus_entries", [5]),
    ("turbostat.tab.txt", "cpu0", "busy_frequency", [2500e6]),
    ("turbostat.tab.txt", "system", "average_frequency", [60e6]),
    ("pcm.dies.csv", "socket0", "instructions_per_cycle", [1.5, 1.5]),
    ("pcm.dies.csv", "socket0/die0", "instructions_per_cycle", [1.1, 1.2]),
    ("pcm.dies.csv", "socket0/die1", "instructions_per_cycle", [1.9, 2.0]),
    ("pcm.dies.csv", "socket0/die1", "uncore_frequency", [1.8e9, 1.8e9]),
    ("pcm.dies.csv", "socket0", "upi0_in", [12.5e6, 13.5e6]),
    ("pcm.dies.csv", "socket0", "upi0_in_share", [0.07, 0.08]),
    ("pcm.dies.csv", "socket0", "upi0_out", [3.25e6, 3.5e6]),
    ("pcm-power.units.txt", "socket0", "thermal_headroom", [37]),
    ("pcm-power.units.txt", "socket0", "uncore_frequency", [2.2e9]),
    ("pcm-power.units.txt", "socket0", "core_frequency", [2.95e9]),
    ("pcm-power.units.txt", "socket0", "core_power_license_0_share", [0.995]),
    ("pcm-power.units.txt", "socket0/upi_port1", "l0p_tx_cycles_share", [0.125]),
    ("pcm-power.units.txt", "socket0/channel2", "rank0_cke_off_residency_share", [0.125]),
    ("pcm-power.units.txt", "socket0/power_unit3", "freq_band_0_cycles_share", [0.75]),
    ("pcm-power.units.txt", "socket0/die1", "limited_by_power", [1]),
    ("pcm-power.units.txt", "socket0/die1", "limited_by_frequency", [0]),
    ("pcm-power.units.txt", "socket0/die0", "limited_by_power", [0]),
    ("pcm-power.units.txt", "socket0/die1", "modules_limited_by_power", [5]),
    ("pcm-power.units.txt", "socket0/die1", "modules_limited_by_power_rapl", [3]),
    ("pcm-power.units.csv", "socket0", "thermal_headroom", [37, 36]),
    ("pcm-power.units.csv", "socket0", "uncore_frequency", [2.2e9, 2.4e9]),
    ("pcm-power.units.csv", "socket0", "core_power_license_0_share", [0.995, 0.985]),
    ("pcm-power.units.csv", "socket0/channel2", "dramclocks", [933, 934]),
    ("pcm-power.units.csv", "socket0/channel2", "rank1_cke_off_residency_share", [0.25, 0.25]),
    ("pcm-power.units.csv", "socket0/die1", "limited_by_thermal", [0, 1]),
    ("pcm-power.units.csv", "socket0/die1", "modules_limited_by_power_rapl", [3, 0]),
    ("pcm-memory.ranks.csv", "socket0/channel1/rank1", "dram_read", [1.5e6]),
    ("pcm-memory.ranks.csv", "socket0/channel0/rank1", "dram_write", [7.25e6]),
    ("pcm-memory.ranks.txt", "socket0/channel2/rank1", "dram_read", [12.5e6]),
    ("pcm-memory.ranks.txt", "socket0/channel2/rank1", "dram_write", [7.25e6]),
    ("pcm-memory.cxl.csv", "socket0", "pmm_mm_bw_dram_bw", [0.4]),
    ("pcm-memory.cxl.csv", "socket0/cxl_port1", "cxl_mem_write", [3.5e6]),
    ("pcm-memory.cxl.csv", "socket0/cxl_port0", "cxl_cache_host_to_device", [2.5e6]),
    ("pcm-memory.cxl.csv", "system", "cxl_read", [4.5e6]),
    ("pcm-memory.cxl.txt", "socket0/channel0", "dram_write", [7.25e6]),
    ("pcm-memory.cxl.txt", "socket0/cxl_port0", "cxl_mem_write", [1.5e6]),
    ("pcm-memory.cxl.txt", "socket0/cxl_port1", "cxl_cache_host_to_device", [4.5e6]),
    ("pcm-memory.hbm.txt", "socket0/channel0", "dram_write", [7.25e6]),
    ("pcm-memory.hbm.txt", "socket0/channel1", "dram_write", []),
    ("pcm-memory.hbm.txt", "socket0/edc0", "hbm_write", [88.25e6]),
    ("pcm-memory.hbm.txt", "socket0/edc1", "hbm_read", [55.5e6]),
    ("pcm-memory.hbm.txt", "socket0", "dram_read", [12.5e6]),
    ("pcm-memory.hbm.txt", "socket0", "hbm_total", [287.5e6]),
    ("pcm-memory.hbm.txt", "system", "memory_read", [167.5e6]),
    ("pcm-iio.peers.csv", "socket0/stack1:PCIe1/part0", "ib_p2p_write", [5, 105, 205]),
    ("pcm-iio.list.txt", "socket0/stack1:PCIe1/part1", "device", ["0000:17:00.0"]),
    ("pcm-iio.list.txt", "socket1/stack4:PCIe3/part2", "device", ["0000:af:00.0"]),
    ("pcm-iio.totals.csv", "socket1/stack1:PCIe1", "iotlb_lookups", [1001, 2001, 3001]),
]


@pytest.mark.parametrize(("name", "unit_path", "metric", "wanted"), TABLE)
def test_the_form_gives_its_numbers(name: str, unit_path: str, metric: str, wanted: Sequence[Value]) -> None:
    parser, *label, _ = name.split(".")
    found = values(read_file(parser, OWN / name, "".join(label)), unit_path, metric)
    assert found == [value if value is None or isinstance(value, str) else pytest.approx(value) for value in wanted]


def test_an_allowance_that_is_left_is_a_level() -> None:
    (port, _) = read_file("ethtool", OWN / "ethtool.ena.txt")
    kinds = {metric.name: metric.kind for metric in port.metrics}
    assert kinds["conntrack_allowance_available"] is Kind.GAUGE
    assert kinds["bw_in_allowance_exceeded"] is Kind.COUNTER


def test_rows_of_perf_iostat_without_a_header_are_refused() -> None:
    with pytest.raises(ParseError, match="rows without a header") as error:
        read_text("perf-iostat", "     1.000123456 0000:5d           1           3           0           2\n")
    assert (error.value.where, error.value.remedy) == ("text:1", "count with the collector perf-uncore or pcm-iio")


def test_json_of_perf_that_cannot_be_repaired_is_refused() -> None:
    with pytest.raises(ParseError, match="broken JSON") as error:
        read_text("perf", '{"counter-value" : "7.000000" "unit" : "", "event" : "cycles"}\n')
    assert error.value.remedy == "record with -x';': some versions of perf 6 put commas wrongly with -j"


def test_what_mlxconfig_says_of_the_next_boot_is_not_the_present() -> None:
    readings = read_file("mlxconfig", OWN / "mlxconfig.txt")
    assert reason(readings, "device", "LOG_MAX_OUTSTANDING_WQE") == "mlxconfig printed no current value (option -e)"
    origin = Origin("text")
    text = "Configurations:  Default  Current  Next Boot\n   CQE_COMPRESSION  1  2  3\n   TORN_SETTING  1\n"
    list(nic_tools.parse_mlxconfig(iter(text.splitlines(keepends=True)), origin))
    assert origin.problems.first == ["text:3: no row of 3 values: 'TORN_SETTING  1'"]


def test_what_pcm_power_prints_beside_known_lines_is_counted() -> None:
    origin = Origin("text")
    text = "S0; Watts: 70.00; \nS0; This PCU profile is not supported on your processor\nsomething else\nS0; Watts\n"
    assert values(power.parse(iter(text.splitlines(keepends=True)), origin), "socket0", "package_power") == [70]
    assert origin.problems.count == 3


def test_units_of_forms() -> None:
    def unit(name: str, metric: str) -> set[str]:
        parser = name.partition(".")[0]
        return {m.unit for reading in read_file(parser, OWN / name) for m in reading.metrics if m.name == metric}

    assert unit("pcm-iio.peers.csv", "ib_p2p_write") == {"B/s"}
    assert unit("pcm-iio.apart.csv", "ib_write_transactions") == {"1/s"}
    assert unit("neohost.table.txt", "chip_frequency") == {"Hz"}
    assert unit("pcm-sensor-server.units.txt", "dram_writes") == {"B"}
    assert unit("pcm-sensor-server.units.txt", "memory_controller_io_requests") == {"B"}
    assert unit("pcm-sensor-server.units.txt", "incoming_data_traffic_on_link_0") == {"B"}
    assert unit("pcm-sensor-server.units.txt", "pcie_read_bytes") == {"B"}
    assert unit("pcm-sensor-server.units.txt", "package_joules_consumed") == {"J"}
    assert unit("pcm-sensor-server.units.txt", "thermal_headroom") == {"degC"}
    assert unit("pcm-sensor-server.units.txt", "measurement_interval") == {"s"}
    assert unit("perf.topdown.json", "tma_retiring") == {"%"}
    assert unit("pcm-memory.cxl.csv", "pmm_mm_bw_dram_bw") == {"1"}
    assert unit("ethtool.vmxnet3.txt", "ucast bytes tx") == {"B"}
    assert unit("ethtool.drivers.txt", "rx_65_to_127_bytes") == {"1"}
    assert unit("ethtool.drivers.txt", "InOctets") == {"B"}
    assert unit("ethtool.drivers.txt", "mmc_rx_octetcount_gb") == {"B"}
    assert unit("ethtool.drivers.txt", "mmc_tx_1024_to_max_octets_gb") == {"1"}
    assert unit("ethtool.groups.txt", "eth-mac-OctetsReceivedOK") == {"B"}
    assert unit("ethtool.groups.txt", "rx-rmon-etherStatsPkts65to127Octets") == {"1"}
    assert unit("perf.metric-only.csv", "branch-misses of all branches") == {"%"}


IIO = "Socket,Name,Part,IB write,IB read,OB read,OB write\nSocket0,IIO Stack 1 - PCIe1,Part0,1,2,3,4\n"
MARKED = {
    "pcm-iio": IIO,
    "pcm-memory": ",,SKT0,System\nDate,Time,Ch0Read,Read\n2026-11-20,15:42:30.396,1.25,95.00\n",
    "pcm": "System,System,System,\nDate,Time,IPC,\n\n2026-11-20,15:42:30.406,1.25,\n",
    "pcm-pcie": "Skt,PCIRdCur,ItoM\n0,1,2\n",
    "turbostat": "Package\tCore\tCPU\tAvg_MHz\n1\t0\t0\t12\n",
    "perf": '{"counter-value" : "12", "unit" : "", "event" : "cycles", "pcnt-running" : 100.00}\n',
    "neohost": '{"counters": [{"counter": {"name": "ICM Cache Miss", "value": 3}}]}\n',
    "dpdk-telemetry": '{"/ethdev/stats": {"ipackets": 5}}\n',
    "lscpu": '{"lscpu": [{"field": "Model:", "data": "106"}]}\n',
    "devlink": '{"health": {"pci/0000:3b:00.0": [{"reporter": "tx", "state": "healthy", "error": 1}]}}\n',
}


@pytest.mark.parametrize("parser", sorted(MARKED))
def test_a_byte_order_mark_changes_nothing(parser: str) -> None:
    assert read_text(parser, "\ufeff" + MARKED[parser]) == read_text(parser, MARKED[parser])


@pytest.mark.parametrize("parser", sorted(MARKED))
def test_utf_16_is_refused(parser: str) -> None:
    text = MARKED[parser].encode("utf-16").decode(errors="replace")
    with pytest.raises(ParseError, match="UTF-16") as error:
        read_text(parser, text)
    assert error.value.where == "text:1"


@pytest.mark.parametrize("form", ["summary,", "", "json"])
def test_totals_behind_intervals_are_no_interval(form: str) -> None:
    """perf stat -I --summary adds the sums of all intervals, with --no-csv-summary and in JSON without a word."""
    row = "12;;cycles;1000;100.00;;\n"
    rows = f"     1.000921300;{row}{form}{row}"
    if form == "json":
        row = '"counter-value" : "12", "unit" : "", "event" : "cycles"}\n'
        rows = f'{{"interval" : 1.000921300, {row}{{{row}'
    origin = Origin("perf")
    readings = list(stat.parse(iter(rows.splitlines(keepends=True)), origin))
    assert [(reading.t_ns, reading.values[0]) for reading in readings] == [(1000921300, 12)]
    assert origin.problems.count == 1


def test_a_metric_that_perf_left_out_takes_its_row_with_it() -> None:
    readings = read_file("perf", OWN / "perf.metric-only.csv")
    assert values(readings, "socket0", "GHz") == [2.113, None]
    torn = [reading for reading in readings if reading.t_ns == 2000708803]
    assert "was not counted" in reason(torn, "socket0", "insn per cycle")


@pytest.mark.parametrize(
    ("header", "row", "unit_path"),
    [
        ("insn per cycle,GHz,", "0.50,2.1,", "system"),
        ("insn per cycle;GHz;", "0.50;2.1;", "system"),
        ("cpu,insn per cycle\tGHz\t", "CPU4\t0.50\t2.1\t", "cpu4"),
        (" time,socket,cpus,insn per cycle;GHz;", "     1.000157454;S1;2;0.50;2.1;", "socket1"),
        ("socket,cpusinsn per cycle,GHz,", "S1,2,0.50,2.1,", "socket1"),
        ("node,insn per cycle,GHz,", "N1,2,0.50,2.1,", "node1"),
        ("core,ctrs,insn per cycle,GHz,", "S0-D0-C7,2,0.50,2.1,", "socket0/die0/core7"),
        ("comm-pid,insn per cycle,GHz,", "dut-411,0.50,2.1,", "thread:dut-411"),
        ("cpu,insn per cycle,GHz,", "CPU4,0.50,2.1,", "cpu4"),
    ],
)
def test_headers_of_metrics(header: str, row: str, unit_path: str) -> None:
    readings = read_text("perf", f"{header}\n{row}\n{header}\n{row}\n")
    assert values(readings, unit_path, "insn per cycle") == [0.5, 0.5]
    assert values(readings, unit_path, "GHz") == [2.1, 2.1]


@pytest.mark.parametrize(
    "row", ["S0,2,0.50,", "S0,2,0.50,2.1,3,", "S0,2,,mygroup0.50,2.1,", "S0,2,0.50,x,", "0.50,2.1,", "S0,2,0.50,2.1"]
)
def test_a_row_that_does_not_fit_its_metrics_is_left_out(row: str) -> None:
    """perf 6.1 glues the name of a cgroup to the first metric."""
    text = f"socket,cpus,insn per cycle,GHz,\nS1,2,0.25,2.0,\n{row}\n"
    assert [reading.unit_path for reading in read_text("perf", text)] == ["socket1"]


def test_the_text_of_intervals_is_refused() -> None:
    text = "#           time socket cpus             counts unit events\n     5.003532543 S0    1    4,263    cycles\n"
    with pytest.raises(ParseError, match="human-readable text") as error:
        read_text("perf", text)
    assert error.value.where == "text:1"


def test_metrics_without_names_are_refused() -> None:
    text = '{"unit" : "insn per cycle"}{"unit" : "GHz"}\n{"metric-value" : "0.50"}{"metric-value" : "2.1"}\n'
    with pytest.raises(ParseError, match="parts the metrics from their names") as error:
        read_text("perf", text)
    assert (error.value.where, error.value.remedy) == ("text:1", "record with -x';'")


def test_two_metrics_of_one_name_are_absent() -> None:
    readings = read_text("perf", '{"insn per cycle" : "0.5", "insn per cycle" : "0.7", "GHz" : "2.1"}\n')
    assert values(readings, "system", "insn per cycle") == [None, None]
    assert values(readings, "system", "GHz") == [2.1]


@pytest.mark.parametrize("row", ["S0,2,,0.12%,1000,100.00,12.5,%  tma_retiring\n", "S0;2;;0.12%;1000;100.00;;\n"])
def test_a_metric_group_has_no_event(row: str) -> None:
    good = "S0,2,5,,cycles,1000,100.00,,\n"
    assert [reading.values[0] for reading in read_text("perf", good + row)] == [5]


@pytest.mark.parametrize("text", ["csv", "boxes"])
def test_columns_of_pcm_iio_in_another_order(text: str) -> None:
    """By name, never by position: here the columns of the stack come first and between."""
    names, full, short = ["IOTLB Miss", "IB read", "IOTLB Lookup", "IB write"], [6, 2, 50, 1], [8, 7]
    rows = [("Part0", full), ("Part1", short)]
    csv = "".join(f"Socket0,IIO Stack 1 - PCIe1,{part},{','.join(map(str, cells))}\n" for part, cells in rows)
    boxes = "".join(f"| {part} |{'|'.join(map(str, cells))}|\n" for part, cells in rows)
    whole = {
        "csv": f"Socket,Name,Part,{','.join(names)}\n{csv}" * 3,
        "boxes": f"Socket0\n|IIO Stack 1 - PCIe1|{'|'.join(names)}|\n{boxes}" * 3,
    }[text]
    readings = read_text("pcm-iio", whole)
    assert values(readings, "socket0/stack1:PCIe1/part0", "dma_write") == [1] * 3
    assert values(readings, "socket0/stack1:PCIe1/part1", "dma_write") == [7] * 3
    assert values(readings, "socket0/stack1:PCIe1/part1", "dma_read") == [8] * 3
    assert values(readings, "socket0/stack1:PCIe1", "iotlb_lookups") == [50] * 3
    assert values(readings, "socket0/stack1:PCIe1", "iotlb_misses") == [6] * 3


def test_a_column_before_part_is_refused() -> None:
    with pytest.raises(ParseError, match="'Die' stands before Part"):
        read_text("pcm-iio", "Socket,Name,Die,Part,IB write\nSocket0,IIO Stack 1 - PCIe1,0,Part0,1\n")


def test_the_title_of_ethtool_settings_is_no_setting() -> None:
    text = "Channel parameters for eth0:\nPre-set maximums:\nCombined:\t64\nCurrent hardware settings:\nCombined:\t8\n"
    (found,) = read_text("ethtool-settings", text)
    assert [metric.name for metric in found.metrics] == ["maximum_combined", "current_combined"]


def test_another_event_of_the_iotlb_is_left_out() -> None:
    row = "vtd_iotlb_page_hit IOTLB page hit sid 0x8 iova 0x1000 slpte 0x2000 domain 0x1\n"
    origin = Origin("trace", label="1000000000")
    readings = list(qemu_vtd.parse(iter([row, row.replace("page_hit", "page_drop")]), origin))
    assert values(readings, "emulated", "iotlb_hits") == [1]
    assert origin.problems.count == 1


def test_neohost_in_a_loop() -> None:
    document = '{"counters": [{"counter": {"name": "ICM Cache Miss", "value": %d}}]}\n'
    text = document % 3 + "\x1b[2J" + document % 4
    assert values(read_text("neohost", text), "device", "icm_cache_misses") == [3, 4]
    assert values(read_text("neohost", text + document[:30]), "device", "icm_cache_misses") == [3, 4]
    table = (OWN / "neohost.table.txt").read_text(encoding="utf-8")
    assert values(read_text("neohost", table + "\x1b[2J" + table), "device", "icm_cache_misses") == []
    assert values(read_text("neohost", table + "\x1b[2J" + table), "device", "pcie_stalled_reads") == [12, 12]


@pytest.mark.parametrize(("printed", "value"), [("1,234", 1234), ("0,85", None), ("12,34", None), ("1,2345", None)])
def test_only_thousands_have_commas_in_neohost(printed: str, value: float) -> None:
    document = f'{{"counters": [{{"counter": {{"name": "ICM Cache Miss", "value": "{printed}"}}}}]}}'
    assert values(read_text("neohost", document), "device", "icm_cache_misses") == [value]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_session_of_dpdk_telemetry(indent: int | None) -> None:
    replies = [{"version": "DPDK 24.11.0", "pid": 7}, {"/ethdev/stats": {"ipackets": 5}}, {"/ethdev/stats": None}]
    first, stats, nothing = (json.dumps(reply, indent=indent) for reply in replies)
    text = f'Connecting to /var/run/dpdk/rte/dpdk_telemetry.v2\n{first}\nConnected to application: "dut"\n'
    text += f"--> /ethdev/stats,1\n{stats}\n--> /ethdev/stats,9\n{nothing}\n--> quit\n"
    readings = read_text("dpdk-telemetry", text)
    assert values(readings, "port1", "ipackets") == [5]
    assert values(readings, "application", "ethdev.stats") == [None]
    with pytest.raises(ParseError, match="no JSON"):
        read_text("dpdk-telemetry", text[:-30])


def test_rows_of_an_old_pcm_without_inactive_channels_are_refused() -> None:
    header = ",,SKT0,SKT0,SKT0,SKT0,System\nDate,Time,Ch0Read,Ch0Write,Ch1Read,Ch1Write,Read\n"
    row = "2022-03-20,15:51:15.577,  12.50,   7.25,  19.75\n"
    with pytest.raises(ParseError, match="no row is as wide as its header") as error:
        read_text("pcm-memory", header + row * 2)
    assert (error.value.where, error.value.remedy) == ("text:3", "record with pcm 202207 or later")


def test_turbostat_without_the_usual_columns() -> None:
    readings = read_text("turbostat", "CPUs: 4, CPU Model: 106\nCPU\tPkgWatt\tNew_Thing\n-\t150.5\t7\n0\t150.5\t7\n")
    assert values(readings, "socket0", "package_power") == [150.5]
    with pytest.raises(ParseError, match="no turbostat header"):
        read_text("turbostat", "New_Thing\tOther_Thing\n7\t8\n")


@pytest.mark.parametrize("rows", ["12.5\t2000\n25.0\t2100\n", "12.5\t2000\n25.0\t2100\nBusy%\tBzy_MHz\n7.5\t1000\n"])
def test_rows_of_turbostat_that_name_no_cpu_are_refused(rows: str) -> None:
    """`--show Busy%,Bzy_MHz` prints the mean and then every CPU: only the first is the system's."""
    with pytest.raises(ParseError, match="several rows under one header, and none names its CPU") as error:
        read_text("turbostat", f"Busy%\tBzy_MHz\n{rows}")
    assert (error.value.where, error.value.remedy) == (
        "text:3",
        "record with --show CPU,COLUMN,..., or with --Summary --header_iterations 1",
    )


@pytest.mark.parametrize("rows", ["", "zero\t12\n", "CPU\tAvg_MHz\n"])
def test_a_header_of_turbostat_without_a_row_is_a_failure(rows: str) -> None:
    with pytest.raises(ParseError, match="no row below its header is understood"):
        read_text("turbostat", f"CPU\tAvg_MHz\n{rows}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("System (Aggregated),,, ", "Metric,System (Aggregated)", "a cumulative report"),
        ("System (Aggregated),,, ", "Somewhere,,,", "no place of AMDuProfPcm: 'Somewhere'"),
        ("System (Aggregated),,, ", "System (Aggregated),Package-0", "the header rows have 2 and 3 cells"),
        ("Total Mem RdBw", "Total Mem WrBw", "two columns are headed 'dram_write' of 'system'"),
        ("Profiling started", "Error: Failed to process args.", "the tool failed: Failed to process args."),
        ("Profile Time: 2025/08/26 23:44:44:294\nDF METRICS,,,\n", "", "no row of AMDuProfPcm's metrics in it"),
    ],
)
def test_reports_of_amd_uprof_that_are_refused(old: str, new: str, message: str) -> None:
    text = (OWN / "amd-uprof-pcm.csv").read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(ParseError, match=re.escape(message)):
        read_text("amd-uprof-pcm", text.replace(old, new))


@pytest.mark.parametrize(
    ("printed", "metric"),
    [
        ("Local DRAM Read Data Bytes(GB/s)", "dram_read_local"),
        ("Local DRAM Write Data Bytes(GB/s)", "dram_write_local"),
        ("Remote DRAM Read Data Bytes (GB/s)", "dram_read_remote"),
        ("Remote DRAM Write Data Bytes (GB/s)", "dram_write_remote"),
        ("Mem Ch-C RdBw (GB/s)", "dram_read"),
    ],
)
def test_traffic_of_amd_uprof_goes_by_the_names_of_all_collectors(printed: str, metric: str) -> None:
    text = (OWN / "amd-uprof-pcm.csv").read_text(encoding="utf-8").replace("Total Mem RdBw (GB/s)", printed)
    path = "system/channelC" if "Ch-C" in printed else "system"
    assert values(read_text("amd-uprof-pcm", text), path, metric)[0] == pytest.approx(114.73e9)


def test_a_further_section_of_amd_uprof_has_headers_of_its_own() -> None:
    first, second = ((OWN / f"amd-uprof-pcm{form}.csv").read_text(encoding="utf-8") for form in ("", ".packages"))
    readings = read_text("amd-uprof-pcm", first + second)
    assert len(values(readings, "system", "dram_traffic")) == 4
    assert values(readings, "socket0", "dram_traffic") == [pytest.approx(11.5e9), pytest.approx(11.6e9)]


def test_the_time_of_a_row_of_amd_uprof_is_no_metric() -> None:
    assert {reading.unit_path for reading in read_file("amd-uprof-pcm", OWN / "amd-uprof-pcm.stamped.csv")} == {
        "system"
    }


def test_events_of_pcm_core_go_by_their_names() -> None:
    text = (OWN / "pcm-core.txt").read_text(encoding="utf-8")
    named = text.replace("txn_rate: 1\n", "Event0: UOPS_ISSUED.STALL_CYCLES (raw 0x1c3010e)\nEvent3: LLC (raw 0x1)\n")
    readings = read_text("pcm-core", named)
    assert values(readings, "cpu0", "uops_issued_stall_cycles") == [0]
    assert values(readings, "cpu0", "llc") == [10 * 10**9]
    assert values(readings, "cpu0", "event1") == [0]


@pytest.mark.parametrize(
    ("unit", "wanted", "base", "kind"),
    [
        ("MB/s", 357.3e6, "B/s", Kind.RATE),
        ("MiB", 357.3 * 2**20, "B", Kind.INTERVAL),
        ("ns", 357.3e-9, "s", Kind.GAUGE),
        ("%", 357.3, "%", Kind.GAUGE),
    ],
)
def test_units_of_the_metric_groups_of_perf(unit: str, wanted: float, base: str, kind: Kind) -> None:
    """As the event lists of AMD's umc and df and of Arm's cmn have them."""
    row = f"1.000000000,5602648,,umc_cas_cmd.rd,1000000000,100.00,357.3,{unit}  df_metric\n"
    (reading,) = (each for each in read_text("perf", row) if each.get("df_metric") is not None)
    (metric,) = reading.metrics
    assert (metric.unit, metric.kind) == (base, kind)
    assert reading.get("df_metric") == pytest.approx(wanted)


def test_what_a_link_of_pcm_carries_is_in_bytes_and_a_share() -> None:
    text = (
        (OWN / "pcm.text.txt")
        .read_text(encoding="utf-8")
        .replace("0%     0%   \n SKT    1", "25%     3%   \n SKT    1")
    )
    readings = read_text("pcm", text)
    assert values(readings, "socket0", "upi0_in_share") == [pytest.approx(0.25)]
    assert values(readings, "socket0", "upi1_out_share") == [pytest.approx(0.03)]
    assert values(readings, "socket0", "upi1_in") == [12 * 10**6]


def test_residencies_of_packages_that_go_on_in_the_next_line_are_of_packages() -> None:
    text = (
        (OWN / "pcm.text.txt").read_text(encoding="utf-8").replace("C2: 0.00 %; C6: 0.00 %;", "C2: 0.00 %;\n C6: 7 %;")
    )
    readings = read_text("pcm", text)
    assert values(readings, "system", "package_c6_residency") == [pytest.approx(0.07)]
    assert values(readings, "system", "core_c6_residency") == [0]


def test_samples_of_the_text_of_pcm_without_a_clock_are_an_interval_apart() -> None:
    """All tables of a sample have its time."""
    with (OWN / "pcm.text.txt").open(encoding="utf-8") as file:
        readings = list(PARSERS["pcm"](file, Origin("text", interval_ns=10**9)))
    times = {path: [each.t_ns for each in readings if each.unit_path == path] for path in ("socket0/core0", "socket1")}
    assert times == {"socket0/core0": [0, 10**9], "socket1": [0, 0, 0, 0]}


@pytest.mark.parametrize("row", ["0.60   0.67    3.40 ", "0.60   0.67    3.40    7 "])
def test_a_row_of_pcm_with_another_number_of_values_is_left_out(row: str) -> None:
    """One value less, and one more: which is whose is unknown."""
    text = (OWN / "pcm.text.txt").read_text(encoding="utf-8").replace("0.60   0.67    3.40      18 K", row, 1)
    readings = read_text("pcm", text.replace("89 K", "18 K     89 K", 1) if row.endswith("7 ") else text)
    assert values(readings, "socket0/core0", "l3_misses") == [21000]


def test_residencies_in_the_csv_of_pcm_are_of_cores_or_of_packages() -> None:
    upper = "System,System,System Core C-States,System Pack C-States,SKT1 Package C-State,\n"
    readings = read_text("pcm", f"{upper}Date,Time,C0res%,C0res%,C6res%,\n2026-11-20,15:42:30.406,95.00,100.00,3.00,\n")
    assert values(readings, "system", "core_c0_residency") == [0.95]
    assert values(readings, "system", "package_c0_residency") == [1]
    assert values(readings, "socket1", "package_c6_residency") == [0.03]


def test_kinds_of_the_columns_of_pcm_core() -> None:
    text = (OWN / "pcm-core.txt").read_text(encoding="utf-8").replace("|  Cycles  |", "| RefCycles |")
    (kind,) = {
        metric.kind
        for each in read_text("pcm-core", text)
        for metric in each.metrics
        if metric.name == "reference_cycles"
    }
    assert kind is Kind.INTERVAL


def test_dead_core_counters_are_dead_in_text_too() -> None:
    text = (OWN / "pcm.text-client.txt").read_text(encoding="utf-8").replace("0.08   0.42 ", "0.08  -1.00 ", 1)
    readings = read_text("pcm", text)
    assert values(readings, "socket0/core0", "l3_hit_share") == [None]
    assert "the core counters are dead" in reason(readings, "socket0/core0", "l3_hit_share")
