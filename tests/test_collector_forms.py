# SPDX-License-Identifier: BSD-3-Clause
"""Check forms of the tools' outputs, and damage: what collectors/golden.tsv and forms.cases cannot say of them."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from collector_samples import OWN, PARSERS, read_file, read_text, reason, values

from pollscope.collectors.iotlb import derive
from pollscope.collectors.parsers.perf import stat
from pollscope.collectors.parsing import Origin, ParseError, scaled
from pollscope.collectors.sample import Kind


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("pcm-iio.csv", {"dma_write": "B/s per second"}),
        ("pcm-iio.peers.csv", {"ib_p2p_write": "B/s per second"}),
        ("pcm-iio.apart.csv", {"ib_write_transactions": "1/s per second"}),
        ("pcm-pcie.csv", {"pcirdcur": "cachelines per interval"}),
        ("pcm-memory.cxl.csv", {"pmm_mm_bw_dram_bw": "1 gauge"}),
        ("pcm-sensor-server.units.txt", {"dram_writes": "B counter", "memory_controller_io_requests": "B counter"}),
        ("pcm-sensor-server.units.txt", {"incoming_data_traffic_on_link_0": "B counter"}),
        ("pcm-sensor-server.units.txt", {"pcie_read_bytes": "B counter", "package_joules_consumed": "J counter"}),
        ("pcm-sensor-server.units.txt", {"thermal_headroom": "degC gauge", "measurement_interval": "s gauge"}),
        ("neohost.table.txt", {"chip_frequency": "Hz gauge", "pcie_inbound_bw_utilization": "% gauge"}),
        ("neohost.json", {"pcie_latency_mean": "s gauge", "pcie_inbound": "B/s gauge"}),
        ("perf.topdown.json", {"tma_retiring": "% gauge"}),
        ("perf.metric-only.csv", {"branch-misses of all branches": "% gauge"}),
        ("ethtool.vmxnet3.txt", {"ucast bytes tx": "B counter"}),
        ("ethtool.drivers.txt", {"rx_65_to_127_bytes": "1 counter", "InOctets": "B counter"}),
        ("ethtool.drivers.txt", {"mmc_rx_octetcount_gb": "B counter", "mmc_tx_1024_to_max_octets_gb": "1 counter"}),
        ("ethtool.groups.txt", {"eth-mac-OctetsReceivedOK": "B counter"}),
        ("ethtool.groups.txt", {"rx-rmon-etherStatsPkts65to127Octets": "1 counter"}),
        ("ethtool.ena.txt", {"conntrack_allowance_available": "1 gauge", "bw_in_allowance_exceeded": "1 counter"}),
    ],
)
def test_units_and_kinds(name: str, wanted: dict[str, str]) -> None:
    readings = read_file(name.partition(".")[0], OWN / name)
    found = [(metric.name, f"{metric.unit} {metric.kind}") for reading in readings for metric in reading.metrics]
    assert {pair for pair in found if pair[0] in wanted} == set(wanted.items())


def test_a_kernel_message_has_the_kernels_time() -> None:
    assert [each.t_ns for each in read_file("kernel-log", OWN / "kernel-log.txt")] == [98765432000, 98765999000]


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
    ("name", "old", "new", "unit", "wanted"),
    [
        *(
            ("amd-uprof-pcm.csv", "Total Mem RdBw (GB/s)", printed, unit, {metric: [114.73e9, 116.12e9, 109.7e9, 3e7]})
            for printed, unit, metric in (
                ("Local DRAM Read Data Bytes(GB/s)", "system", "dram_read_local"),
                ("Local DRAM Write Data Bytes(GB/s)", "system", "dram_write_local"),
                ("Remote DRAM Read Data Bytes (GB/s)", "system", "dram_read_remote"),
                ("Remote DRAM Write Data Bytes (GB/s)", "system", "dram_write_remote"),
                ("Mem Ch-C RdBw (GB/s)", "system/channelC", "dram_read"),
            )
        ),
        (
            "pcm-core.txt",
            "txn_rate: 1\n",
            "Event0: UOPS_ISSUED.STALL_CYCLES (raw 0x1c3010e)\nEvent3: LLC (raw 0x1)\n",
            "cpu0",
            {"uops_issued_stall_cycles": [0], "llc": [10 * 10**9], "event1": [0]},
        ),
        # Traffic of a link, in bytes and as a share.
        (
            "pcm.text.txt",
            "0%     0%   \n SKT    1",
            "25%     3%   \n SKT    1",
            "socket0",
            {"upi0_in_share": [0.25], "upi1_out_share": [0.03], "upi1_in": [12 * 10**6]},
        ),
        # Residencies of packages that continue in the next line.
        (
            "pcm.text.txt",
            "C2: 0.00 %; C6: 0.00 %;",
            "C2: 0.00 %;\n C6: 7 %;",
            "system",
            {"package_c6_residency": [0.07], "core_c6_residency": [0]},
        ),
        # Rows with one value less, and one more: which is whose is unknown.
        *(
            ("pcm.text.txt", "0.60   0.67    3.40      18 K", row, "socket0/core0", {"l3_misses": [21000]})
            for row in ("0.60   0.67    3.40 ", "0.60   0.67    3.40    7      18 K")
        ),
        ("pcm.text-client.txt", "0.08   0.42 ", "0.08  -1.00 ", "socket0/core0", {"l3_hit_share": [None]}),
    ],
)
def test_a_changed_text_gives_its_numbers(name: str, old: str, new: str, unit: str, wanted: dict[str, Any]) -> None:
    text = (OWN / name).read_text(encoding="utf-8")
    assert old in text
    readings = read_text(name.partition(".")[0], text.replace(old, new))
    for metric, numbers in wanted.items():
        assert values(readings, unit, metric) == [
            number if number is None else pytest.approx(number) for number in numbers
        ]


def test_a_further_section_of_amd_uprof_has_headers_of_its_own() -> None:
    first, second = ((OWN / f"amd-uprof-pcm{form}.csv").read_text(encoding="utf-8") for form in ("", ".packages"))
    readings = read_text("amd-uprof-pcm", first + second)
    assert len(values(readings, "system", "dram_traffic")) == 4
    assert values(readings, "socket0", "dram_traffic") == [pytest.approx(11.5e9), pytest.approx(11.6e9)]


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


def test_samples_of_the_text_of_pcm_without_a_clock_are_an_interval_apart() -> None:
    """All tables of a sample have its time."""
    with (OWN / "pcm.text.txt").open(encoding="utf-8") as file:
        readings = list(PARSERS["pcm"](file, Origin("text", interval_ns=10**9)))
    times = {path: [each.t_ns for each in readings if each.unit_path == path] for path in ("socket0/core0", "socket1")}
    assert times == {"socket0/core0": [0, 10**9], "socket1": [0, 0, 0, 0]}


def test_kinds_of_the_columns_of_pcm_core() -> None:
    text = (OWN / "pcm-core.txt").read_text(encoding="utf-8").replace("|  Cycles  |", "| RefCycles |")
    (kind,) = {
        metric.kind
        for each in read_text("pcm-core", text)
        for metric in each.metrics
        if metric.name == "reference_cycles"
    }
    assert kind is Kind.INTERVAL


def config_space(register_180: int, chain: Sequence[int] = ()) -> str:
    """Return 4096 bytes of a root port: PCI Express capability at 0x40, extended ones at the offsets of `chain`."""
    content = bytearray(4096)
    content[0x06] = 0x10
    content[0x34] = 0x40
    content[0x40:0x44] = bytes([0x10, 0, 0x42, 0])
    content[0x48:0x4A] = (0x2010 | 1 << 5).to_bytes(2, "little")  # MRRS 512, relaxed ordering, MPS 256
    content[0x4C:0x4E] = (0x103).to_bytes(2, "little")
    content[0x52:0x54] = (0x083).to_bytes(2, "little")  # 8 GT/s, x8
    for offset, following in zip(chain, [*chain[1:], 0], strict=False):
        content[offset : offset + 4] = (0x0B | 1 << 16 | following << 20).to_bytes(4, "little")
    if 0x180 not in chain:
        content[0x180:0x184] = register_180.to_bytes(4, "little")
    return bytes(content).hex()


@pytest.mark.parametrize(
    ("port", "config", "ddio", "why"),
    [
        ("8086:2030", config_space(0x00183091), 1, ""),
        ("8086:2030", config_space(0x00183011), 0, ""),
        ("8086:347a", config_space(0, (0x100, 0x180)), None, ""),
        # Even a root port that the table knows is not believed when its capability chain runs over the register.
        ("8086:2030", config_space(0, (0x100, 0x180)), None, "0x180 is the head of an extended capability"),
        # An emulated port's bit does not show where DMA writes go.
        ("1b36:000c", config_space(0x80), None, "no DDIO is behind it"),
    ],
)
def test_offset_0x180_is_ddio_on_skylake_only(port: str, config: str, ddio: int | None, why: str) -> None:
    readings = read_text("pcie", f"device 0000:16:00.0 rootport:0000:17:00.0 {port} {config}\n")
    assert values(readings, "device:0000:16:00.0", "ddio") == [ddio]
    absence = reason(readings, "device:0000:16:00.0", "ddio")
    assert why in absence and bool(absence) == (ddio is None)
    assert values(readings, "device:0000:16:00.0", "no_snoop_writes") == [None if ddio is None else 0]


IIO_HEADER = "Socket,Name,Part,IB write,IB read,OB read,OB write,IOTLB Lookup,IOTLB Miss\n"


def test_derived_iotlb_counts_admit_that_counters_were_not_taken_at_once() -> None:
    text = IIO_HEADER + "Socket0,IIO Stack 1 - PCIe1,Part0,1,2,3,4,50,60\n"
    readings = list(derive(read_text("pcm-iio", text)))
    assert values(readings, "socket0/stack1:PCIe1", "iotlb.misses") == [60]
    assert values(readings, "socket0/stack1:PCIe1", "iotlb.hits") == [None]
    assert "not taken at the same time" in reason(readings, "socket0/stack1:PCIe1", "iotlb.hits")


@pytest.mark.parametrize(
    ("column", "lookups", "hits"), [("IOTLB Hit", 103, 100), ("IOTLB Lookup", 100, 97)], ids=["skylake", "icelake"]
)
def test_iotlb_columns_are_found_by_name(column: str, lookups: int, hits: int) -> None:
    header = f"Date,Time,Socket,Name,Part,IB write,{column},IOTLB Miss\n"
    text = header + "2026-11-20,15:39:40.152,Socket0,IIO Stack 1 - PCIe0,Part0,1,100,3\n"
    readings = list(derive(read_text("pcm-iio", text)))
    assert values(readings, "socket0/stack1:PCIe0", "iotlb.lookups") == [lookups]
    assert values(readings, "socket0/stack1:PCIe0", "iotlb.hits") == [hits]
    assert values(readings, "socket0/stack1:PCIe0", "iotlb.miss_share") == [3 / lookups]


@pytest.mark.parametrize("value", [2**64 - 1, 2**48, 3 * 14 * 2**48, 2**47])
def test_wrapped_counters_are_absent_with_a_reason(value: object) -> None:
    pcie = read_text("pcm-pcie", f"Skt,PCIRdCur,ItoM\n0,{value},7\n")
    assert values(pcie, "socket0", "pcirdcur") == [None]
    assert "wrapped" in reason(pcie, "socket0", "pcirdcur")
    assert values(pcie, "socket0", "itom") == [7]
    iio = read_text("pcm-iio", IIO_HEADER + f"Socket0,IIO Stack 1 - PCIe1,Part0,{value},2,3,4,5,6\n" * 2)
    assert values(iio, "socket0/stack1:PCIe1/part0", "dma_write") == [None, None]


@pytest.mark.parametrize("kind", ["identity", "DMA-FQ", "DMA"])
def test_vfio_has_a_domain_of_its_own_whatever_the_mode(kind: str) -> None:
    listing = f"unit dmar0\ndevice 0000:17:00.0 12 {kind} vfio-pci\ncmdline intel_iommu=on\nunsafe_noiommu N\n"
    assert values(read_text("iommu", listing), "device:0000:17:00.0", "translation") == ["vfio"]


@pytest.mark.parametrize(
    ("row", "unit_path"),
    [
        ("1.000921300;S0;1;0.85;MiB;uncore_imc_0/cas_count_read/;1000921300;100.00;;", "socket0"),
        ("S0,1,0.85,MiB,uncore_imc_0/cas_count_read/,1000921300,100.00,,", "socket0"),
        ("CPU3,0.85,MiB,uncore_imc_0/cas_count_read/,0.25%,1000921300,100.00,,", "cpu3"),
        ("     1.000921300,0.85,MiB,uncore_imc_0/cas_count_read/,1000921300,100.00,,", "system"),
        ("S1-D0-C4;2;0.85;MiB;uncore_imc_0/cas_count_read/;1000921300;100.00;;", "socket1/die0/core4"),
        (
            '{"counter-value" : "0.85", "unit" : "MiB", "event" : "uncore_imc_0/cas_count_read/"}',
            "system",
        ),
        (
            '{"socket" : "S0", "counter-value" : 0.85, "unit" : "MiB", "event" : "uncore_imc_0/cas_count_read/"}',
            "socket0",
        ),
    ],
)
def test_perf_shifts_its_columns_and_scales_to_mib(row: str, unit_path: str) -> None:
    readings = read_text("perf", row + "\n")
    assert values(readings, unit_path, "uncore_imc_0/cas_count_read/") == [pytest.approx(0.85 * 2**20)]


def test_a_carriage_return_does_not_join_digits() -> None:
    header = "Socket,Name,Part,IB write,IB read,OB read,OB write\n"
    readings = read_text("pcm-iio", header + "Socket0,IIO Stack 1 - PCIe1,Part0,902\r712,2,3,4\n")
    assert values(readings, "socket0/stack1:PCIe1/part0", "dma_write") == [None]


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 400, "-1", "1.5"])
def test_a_setting_of_mlxconfig_that_is_no_register_stays_text(number: str) -> None:
    """int() refuses 5000 digits with an error of its own."""
    (found,) = read_text("mlxconfig", f"Configurations: Current\n  LOG_MAX_OUTSTANDING_WQE  {number}\n")
    assert (found.metrics[0].unit, found.values[0]) == ("", number)


def test_a_choice_of_mlxconfig_with_an_endless_number_stays_text() -> None:
    (found,) = read_text("mlxconfig", f"Configurations: Current\n  CQE_COMPRESSION  AGGRESSIVE({'9' * 5000})\n")
    assert [metric.name for metric in found.metrics] == ["CQE_COMPRESSION"]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("command", ["/ethdev/stats", "/ethdev/link_status", "/mempool/info"])
def test_no_number_of_dpdk_telemetry_is_not_a_value(command: str, value: object) -> None:
    """Python's JSON takes NaN and Infinity, which are no numbers to compare or to store."""
    readings = read_text("dpdk-telemetry", f'{{"{command}": {{"ipackets": {value}}}}}\n', f"{command},0")
    assert {number for each in readings for number in each.values} == {None}
    assert all(set(each.reasons) == set(range(len(each.metrics))) for each in readings)


def test_a_scaled_number_of_perf_keeps_its_decimals() -> None:
    """0.85 MiB, 2.11 GHz and 12.5 ms times a power of ten are what was printed, without the rounding of a product."""
    row = "2109.99;msec;task-clock;2109990000;100.00;2.110;GHz\n0.07;Joules;power/energy-pkg/;1000;100.00;;\n"
    readings = read_text("perf", row)
    assert values(readings, "system", "task-clock") == [2.10999]
    assert values(readings, "system", "power/energy-pkg/") == [0.07]
    assert [scaled((printed, ""), scale)[0] for printed, scale in ((2.11, 10**9), (1.1, 10**6), (50.01, 0.01))] == [
        2110000000.0,
        1100000.0,
        0.5001,
    ]
    assert scaled((7, ""), 10**6) == (7000000, "")
    assert [scaled((printed, ""), 0.01)[0] for printed in (99.88, 7.84, 0.07)] == [0.9988, 0.0784, 0.0007]
    assert scaled((123456789012345678, ""), 1e-9)[0] == 123456789.012345678


def test_a_suffix_stands_only_where_the_tool_prints_one() -> None:
    power = read_text("pcm-power", "S1CH2; CKE Off Residency: 159.33M%; Self-refresh Residency: 5.00%\n")
    assert values(power, "socket1/channel2", "cke_off_residency_share") == [None]
    assert values(power, "socket1/channel2", "self_refresh_residency_share") == [0.05]
    text = (OWN / "pcm.text.txt").read_text(encoding="utf-8")
    assert values(read_text("pcm", text), "socket0/core0", "l3_misses")[0] == 18_000
    shares = read_text("pcm", re.sub(r"L3MISS(?= *\|)", "L3MISS%", text))
    assert values(shares, "socket0/core0", "l3miss_share")[0] is None
    damaged = read_text("pcm", re.sub(r"(?m)^( +0 +0 .*?)(\d+)( +\d+ +\d+ +\d+)$", r"\1\2 K\3", text, count=1))
    assert values(damaged, "socket0/core0", "l3_occupancy")[0] is None


@pytest.mark.parametrize(
    ("line", "queue", "name"),
    [
        ("rx_posted_desc[3]: 512", "rx_queue3", "posted_desc"),
        ("tx_q-11_bytes: 512", "tx_queue11", "bytes"),
        ("rx_queue_63_bytes: 512", "rx_queue63", "bytes"),
        ("rx_64_bytes_phy: 512", None, "rx_64_bytes_phy"),
    ],
)
def test_queues_of_further_drivers(line: str, queue: str, name: str) -> None:
    readings = read_text("ethtool", f"NIC statistics:\n     {line}\n", "eth0")
    assert values(readings, f"port:eth0/{queue}" if queue else "port:eth0", name) == [512]
