# SPDX-License-Identifier: BSD-3-Clause
"""Check forms that options, versions and drivers give to the tools' outputs: what golden.tsv cannot say of them."""

import json
import re

import pytest
from collector_samples import OWN, PARSERS, read_file, read_text, reason, values

from pollscope.collectors.parsers import nic_tools, qemu_vtd
from pollscope.collectors.parsers.pcm import power
from pollscope.collectors.parsers.perf import stat
from pollscope.collectors.parsing import Origin, ParseError
from pollscope.collectors.sample import Kind


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
    assert error.value.remedy == "record with -x';': some versions of perf 6 misplace commas with -j"


def test_mlxconfigs_value_for_the_next_boot_is_not_the_present_one() -> None:
    readings = read_file("mlxconfig", OWN / "mlxconfig.txt")
    assert reason(readings, "device", "LOG_MAX_OUTSTANDING_WQE") == "mlxconfig printed no current value (option -e)"
    origin = Origin("text")
    text = "Configurations:  Default  Current  Next Boot\n   CQE_COMPRESSION  1  2  3\n   TORN_SETTING  1\n"
    list(nic_tools.parse_mlxconfig(iter(text.splitlines(keepends=True)), origin))
    assert origin.problems.first == ["text:3: no row of 3 values: 'TORN_SETTING  1'"]


def test_unknown_lines_of_pcm_power_are_counted() -> None:
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
def test_a_byte_order_mark_and_other_line_ends_change_nothing(parser: str) -> None:
    for text in ("\ufeff" + MARKED[parser], MARKED[parser].replace("\n", "\r\n")):
        assert read_text(parser, text) == read_text(parser, MARKED[parser]) != []


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
    with pytest.raises(ParseError, match="separates the metrics from their names") as error:
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
    with pytest.raises(ParseError, match="no row below its header is valid"):
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
    """Parse events in the form of the event lists of AMD's umc and df and of Arm's cmn."""
    row = f"1.000000000,5602648,,umc_cas_cmd.rd,1000000000,100.00,357.3,{unit}  df_metric\n"
    (reading,) = (each for each in read_text("perf", row) if each.get("df_metric") is not None)
    (metric,) = reading.metrics
    assert (metric.unit, metric.kind) == (base, kind)
    assert reading.get("df_metric") == pytest.approx(wanted)


def test_traffic_of_a_pcm_link_is_in_bytes_and_as_a_share() -> None:
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
