# SPDX-License-Identifier: BSD-3-Clause
"""Check ten properties of the tools that break a naive reader, one per test."""

import json
import re
from collections.abc import Sequence

import pytest
from collector_samples import FIXTURES, OWN, needs_fixtures, read_file, read_text, reason, values

from pollscope.collectors.parsers import turbostat
from pollscope.collectors.parsers.pcm import iio
from pollscope.collectors.parsers.perf import stat
from pollscope.collectors.parsing import Origin, ParseError, scaled
from pollscope.collectors.sample import Kind


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


def test_1_offset_0x180_is_ddio_on_skylake_only() -> None:
    skylake = read_text("pcie", f"device 0000:16:00.0 rootport:0000:17:00.0 8086:2030 {config_space(0x00183091)}\n")
    assert values(skylake, "device:0000:16:00.0", "ddio") == [1]
    assert values(skylake, "device:0000:16:00.0", "no_snoop_writes") == [0]
    off = read_text("pcie", f"device 0000:16:00.0 rootport:0000:17:00.0 8086:2030 {config_space(0x00183011)}\n")
    assert values(off, "device:0000:16:00.0", "ddio") == [0]
    icelake = read_text(
        "pcie", f"device 0000:50:02.0 rootport:0000:51:00.0 8086:347a {config_space(0, (0x100, 0x180))}\n"
    )
    assert values(icelake, "device:0000:50:02.0", "ddio") == [None]
    assert reason(icelake, "device:0000:50:02.0", "ddio")
    # even a root port that the table knows is not believed when its capability chain runs over the register
    chained = read_text(
        "pcie", f"device 0000:16:00.0 rootport:0000:17:00.0 8086:2030 {config_space(0, (0x100, 0x180))}\n"
    )
    assert values(chained, "device:0000:16:00.0", "ddio") == [None]
    assert "extended capability" in reason(chained, "device:0000:16:00.0", "ddio")
    # an emulated port's bit does not show where DMA writes go
    qemu = read_text("pcie", f"device 0000:00:02.0 rootport:0000:01:00.0 1b36:000c {config_space(0x80)}\n")
    assert values(qemu, "device:0000:00:02.0", "ddio") == [None]
    assert "no DDIO is behind it" in reason(qemu, "device:0000:00:02.0", "ddio")


IIO_HEADER = "Socket,Name,Part,IB write,IB read,OB read,OB write,IOTLB Lookup,IOTLB Miss\n"


def test_2_pcm_iio_rows_are_ragged_and_headers_repeat() -> None:
    text = (
        IIO_HEADER
        + "Socket0,IIO Stack 1 - PCIe1,Part0 (1st x16/x8/x4),1,2,3,4,50,6\n"
        + "Socket0,IIO Stack 1 - PCIe1,Part1 (2nd x4),7,8,9,10\n"
        + IIO_HEADER
        + "Socket0,IIO Stack 1 - PCIe1,Part0 (1st x16/x8/x4),11,12,13,14,150,16\n"
    )
    readings = read_text("pcm-iio", text)
    assert values(readings, "socket0/stack1:PCIe1/part0", "dma_write") == [1, 11]
    assert values(readings, "socket0/stack1:PCIe1/part1", "mmio_write") == [10]
    assert values(readings, "socket0/stack1:PCIe1", "iotlb_lookups") == [50, 150]
    assert values(readings, "socket0/stack1:PCIe1/part1", "iotlb_lookups") == []


def test_2_a_row_cut_inside_its_values_gives_none_of_them() -> None:
    origin = Origin("cut")
    cut = IIO_HEADER + "Socket0,IIO Stack 1 - PCIe1,Part0,1,2,3,4,50,6\nSocket0,IIO Stack 1 - PCIe1,Part0,1,2\n"
    assert len(list(iio.parse(iter(cut.splitlines(keepends=True)), origin))) == 2
    assert origin.problems.count == 1
    torn = (
        IIO_HEADER + "Socket0,IIO Stack 1 - PCIe1,Part0,1,2,3,4,50,6\nSocket0,IIO Stack 1 - PCIe1,Part0,1,2,3,4,50,61"
    )
    assert values(read_text("pcm-iio", torn), "socket0/stack1:PCIe1", "iotlb_misses") == [6]


def test_2_a_header_without_part_belongs_to_rows_with_part() -> None:
    text = "Socket,Name,IB write,IB read,OB read,OB write\nSocket1,IIO Stack 2 - PCIe1,Part3 (4th x4),5,6,7,8\n"
    assert values(read_text("pcm-iio", text), "socket1/stack2:PCIe1/part3", "dma_write") == [5]


def test_2_a_row_longer_than_its_header_is_refused() -> None:
    with pytest.raises(ParseError, match="has 7 values, its header 6"):
        read_text("pcm-iio", IIO_HEADER + "Socket0,IIO Stack 1 - PCIe1,Part0,1,2,3,4,5,6,7\n")


def test_3_derived_iotlb_counts_admit_that_counters_were_not_taken_at_once() -> None:
    from pollscope.collectors.iotlb import derive

    text = IIO_HEADER + "Socket0,IIO Stack 1 - PCIe1,Part0,1,2,3,4,50,60\n"
    readings = list(derive(read_text("pcm-iio", text)))
    assert values(readings, "socket0/stack1:PCIe1", "iotlb.misses") == [60]
    assert values(readings, "socket0/stack1:PCIe1", "iotlb.hits") == [None]
    assert "not taken at the same time" in reason(readings, "socket0/stack1:PCIe1", "iotlb.hits")


def test_4_pcm_iio_is_per_second_and_pcm_pcie_per_interval() -> None:
    iio = read_text("pcm-iio", IIO_HEADER + "Socket0,IIO Stack 1 - PCIe1,Part0,1,2,3,4,5,6\n")
    assert {metric.kind for reading in iio for metric in reading.metrics} == {Kind.RATE}
    pcie = read_text("pcm-pcie", "Skt,PCIRdCur,ItoM,PCIe Rd (B)\n0,1,2,3\n")
    assert {metric.kind for reading in pcie for metric in reading.metrics} == {Kind.INTERVAL}


def test_5_the_class_of_a_pcm_pcie_row_is_glued_to_its_last_number() -> None:
    readings = read_text("pcm-pcie", "Skt,PCIRdCur,PCIe Wr (B)\n0,5,17698752512(Total)\n0,2,64(Miss)\n0,3,128(Hit)\n")
    assert values(readings, "socket0", "pcie_write_bytes") == [17698752512]
    assert values(readings, "socket0", "pcie_write_bytes_miss") == [64]
    assert values(readings, "socket0", "pcirdcur_hit") == [3]


@pytest.mark.parametrize(
    ("column", "lookups", "hits"), [("IOTLB Hit", 103, 100), ("IOTLB Lookup", 100, 97)], ids=["skylake", "icelake"]
)
def test_6_iotlb_columns_are_found_by_name(column: str, lookups: int, hits: int) -> None:
    from pollscope.collectors.iotlb import derive

    header = f"Date,Time,Socket,Name,Part,IB write,{column},IOTLB Miss\n"
    text = header + "2026-11-20,15:39:40.152,Socket0,IIO Stack 1 - PCIe0,Part0,1,100,3\n"
    readings = list(derive(read_text("pcm-iio", text)))
    assert values(readings, "socket0/stack1:PCIe0", "iotlb.lookups") == [lookups]
    assert values(readings, "socket0/stack1:PCIe0", "iotlb.hits") == [hits]
    assert values(readings, "socket0/stack1:PCIe0", "iotlb.miss_share") == [3 / lookups]


def test_7_two_header_rows_padding_empty_cells_and_carriage_returns() -> None:
    csv = ",,SKT0,SKT0,SKT1,System\nDate,Time,Ch0Read,Ch1Read,Ch0Read,Read\n"
    csv += "2026-11-20,15:51:15.577,  12.50,,    7.25,   19.75\n"
    readings = read_text("pcm-memory", csv)
    assert values(readings, "socket0/channel0", "dram_read") == [12.5e6]
    assert values(readings, "socket0/channel1", "dram_read") == [None]
    assert values(readings, "socket1/channel0", "dram_read") == [7.25e6]
    with pytest.raises(ParseError, match="two columns are headed"):
        read_text("pcm-memory", ",,SKT0,SKT0\nDate,Time,Ch0Read,Ch0Read\n2026-11-20,15:51:15.577,1,2\n")
    core = "System,System,System,\nDate,Time,IPC,\n\n2026-11-20,15:42:30.406,1.25,\n2026-11-20,15:42:31.406,1.50,"
    assert values(read_text("pcm", core), "system", "instructions_per_cycle") == [1.25, 1.5]


@needs_fixtures
def test_7_pcm_memory_text_with_carriage_returns() -> None:
    readings = read_file("pcm-memory", FIXTURES / "pcm-memory/codegen/pcm-memory_head2606_text_partial_spr_8ch.txt")
    assert values(readings, "system", "memory_read") == pytest.approx([19047.42e6, 19063.42e6])


@pytest.mark.parametrize("value", [2**64 - 1, 2**48, 3 * 14 * 2**48, 2**47])
def test_8_wrapped_counters_are_absent_with_a_reason(value: object) -> None:
    pcie = read_text("pcm-pcie", f"Skt,PCIRdCur,ItoM\n0,{value},7\n")
    assert values(pcie, "socket0", "pcirdcur") == [None]
    assert "wrapped" in reason(pcie, "socket0", "pcirdcur")
    assert values(pcie, "socket0", "itom") == [7]
    iio = read_text("pcm-iio", IIO_HEADER + f"Socket0,IIO Stack 1 - PCIe1,Part0,{value},2,3,4,5,6\n" * 2)
    assert values(iio, "socket0/stack1:PCIe1/part0", "dma_write") == [None, None]


def test_8_dead_core_counters_take_their_hit_ratio_with_them() -> None:
    text = "System,System,System,System\nDate,Time,IPC,L3HIT\n2026-11-20,15:42:30.406,-1.00,1.00\n"
    readings = read_text("pcm", text)
    assert values(readings, "system", "instructions_per_cycle") == [None]
    assert values(readings, "system", "l3_hit_share") == [None]
    assert "dead" in reason(readings, "system", "l3_hit_share")


def test_9_the_kernel_log_is_no_evidence_of_an_iommu() -> None:
    log = (
        "[ 0.3] iommu: Default domain type: Translated \n[ 0.3] iommu: DMA domain TLB invalidation policy: lazy mode\n"
    )
    readings = read_text("iommu", log)
    assert values(readings, "system", "translation") == [None]
    assert "no evidence" in reason(readings, "system", "translation")
    listing = "device 0000:17:00.0 - - vfio-pci\ncmdline intel_iommu=on iommu=pt quiet\nunsafe_noiommu Y\n" + log
    off = read_text("iommu", listing)
    assert values(off, "system", "translation") == ["off"]
    assert values(off, "device:0000:17:00.0", "translation") == ["off"]
    on = read_text("iommu", "unit dmar0\ndevice 0000:17:00.0 12 DMA-FQ mlx5_core\n" + listing.partition("\n")[2])
    assert values(on, "device:0000:17:00.0", "translation") == ["lazy"]


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
def test_10_perf_shifts_its_columns_and_scales_to_mib(row: str, unit_path: str) -> None:
    readings = read_text("perf", row + "\n")
    assert values(readings, unit_path, "uncore_imc_0/cas_count_read/") == [pytest.approx(0.85 * 2**20)]


def test_10_an_event_with_commas_under_a_comma_separator() -> None:
    row = "1.000921300,12,,uncore_iio_0/event=0x83,umask=0x1,ch_mask=0x1,fc_mask=0x7/,1000921300,50.01,,\n"
    readings = read_text("perf", row)
    event = "uncore_iio_0/event=0x83,umask=0x1,ch_mask=0x1,fc_mask=0x7/"
    assert values(readings, "system", event) == [12]
    assert values(readings, "system", f"{event}.running_share") == [pytest.approx(0.5001)]


def test_10_not_counted_and_not_supported_are_absences() -> None:
    text = "<not counted>,,cycles,0,0.00,,\n<not supported>,,instructions,0,100.00,,\n"
    readings = read_text("perf", text)
    assert values(readings, "system", "cycles") == [None]
    assert "not counted" in reason(readings, "system", "cycles")
    assert "not supported" in reason(readings, "system", "instructions")
    assert values(readings, "system", "instructions.running_share") == [None]


def test_a_header_whose_names_were_damaged_is_refused() -> None:
    with pytest.raises(ParseError, match="no Socket and Name"):
        read_text("pcm-iio", "Socket;Name,Part,IB write\nSocket0,IIO Stack 1 - PCIe1,Part0,1\n")


def test_a_carriage_return_does_not_join_digits() -> None:
    header = "Socket,Name,Part,IB write,IB read,OB read,OB write\n"
    readings = read_text("pcm-iio", header + "Socket0,IIO Stack 1 - PCIe1,Part0,902\r712,2,3,4\n")
    assert values(readings, "socket0/stack1:PCIe1/part0", "dma_write") == [None]


def test_a_row_of_turbostat_that_ends_before_its_cpu_is_left_out() -> None:
    origin = Origin("cut")
    lines = ["Package\tCore\tCPU\tAvg_MHz\n", "0\n", "0\t0\t\t1\n", "0\t0\t0\t1200\n"]
    assert values(list(turbostat.parse(iter(lines), origin)), "cpu0", "average_frequency") == [1.2e9]
    assert origin.problems.count == 2


def test_turbostat_with_the_time_in_front() -> None:
    header = "usec\tTime_Of_Day_Seconds\tPackage\tCore\tCPU\tAPIC\tAvg_MHz\tBusy%\tCoreTmp\n"
    rows = "312\t1795190000.123456\t-\t-\t-\t-\t1200\t60.00\t55\n21\t1795190000.120000\t0\t1\t3\t6\t2400\t99.00\t54\n"
    readings = read_text("turbostat", header + rows)
    assert values(readings, "cpu3", "average_frequency") == [2.4e9]
    assert values(readings, "socket0/core1", "core_temperature") == [54]
    assert {metric.name for reading in readings for metric in reading.metrics} == {
        "average_frequency",
        "busy_share",
        "core_temperature",
    }


def test_older_pcm_names_a_group_once() -> None:
    above = "System;;;;System Core C-States;;Socket0;;Proc Energy (Joules);;\n"
    below = "Date;Time;IPC;READ;C0res%;C6res%;IPC;READ;SKT0;SKT1;\n"
    readings = read_text("pcm", above + below + "\n2019-05-20;15:42:30.396;1.25;3.07;95.00;5.00;0.75;1.50;80.5;79.5;")
    assert values(readings, "system", "instructions_per_cycle") == [1.25]
    assert values(readings, "socket0", "memory_read") == [1.5e9]
    assert values(readings, "system", "core_c6_residency") == [0.05]
    assert values(readings, "socket1", "package_energy") == [79.5]


def test_pcm_power_prints_several_values_after_one_name() -> None:
    readings = read_text(
        "pcm-power",
        "S0; PCUClocks: 801000; Freq band 0/1/2 cycles: 99.10%; 5.00%; 0.25%\n"
        "S1; PCUClocks: 802000; core C0/C3/C6-state residency: 95.5; 3.25; 1.25\n",
    )
    shares = [values(readings, "socket0", f"freq_band_{band}_cycles_share") for band in range(3)]
    assert shares == [[pytest.approx(0.991)], [pytest.approx(0.05)], [pytest.approx(0.0025)]]
    states = [values(readings, "socket1", f"core_{state}_state_residency") for state in ("c0", "c3", "c6")]
    assert states == [[95.5], [3.25], [1.25]]
    assert values(readings, "socket0", "pcuclocks") == [801000]


def test_a_torn_time_of_perf_does_not_become_a_count() -> None:
    good = "     1.001000000;S0-D0-C1;1;5;;cycles;100;100.00;;\n"
    readings = read_text("perf", good + good.replace("1.001000000", "1.001"))
    assert [(reading.unit_path, reading.values[0]) for reading in readings] == [("socket0/die0/core1", 5)]


def test_units_of_neohost() -> None:
    entries = [("PCIe Avg Latency", "[NS]", "1,200"), ("PCIe Inbound BW Utilization", "[%]", "55.5")]
    analysis = [{"analysisAttribute": dict(zip(("name", "units", "value"), entry, strict=True))} for entry in entries]
    (reading,) = read_text("neohost", json.dumps({"analysis": analysis}))
    assert [(metric.unit, value) for metric, value in zip(reading.metrics, reading.values, strict=True)] == [
        ("s", 1.2e-6),
        ("%", 55.5),
    ]


def test_a_suffix_in_the_csv_of_pcm_is_no_number() -> None:
    text = "System,System,System\nDate,Time,C0res%\n2026-11-20,15:42:30.406,  30 M \n2026-11-20,15:42:31.406,95.00\n"
    assert values(read_text("pcm", text), "system", "core_c0_residency") == [None, pytest.approx(0.95)]


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


def test_a_number_glued_to_the_run_time_is_no_share() -> None:
    """perf before commit df936cad printed event-runtime and pcnt-running without anything in between."""
    row = '{"counter-value" : "12", "unit" : "", "event" : "cycles", "pcnt-running" : 3805731510100.00}\n'
    readings = read_text("perf", row)
    assert values(readings, "system", "cycles") == [12]
    assert values(readings, "system", "cycles.running_share") == [None]
    assert "no share" in reason(readings, "system", "cycles.running_share")


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


def test_turbostat_prints_energy_demotions_and_references() -> None:
    header = "Core\tCPU\tAvg_MHz\tBusy%\tLLCMRPS\tC1\tC1+\tC1-\tL3\tPkg_J\tCor_J\n"
    readings = read_text(
        "turbostat", header + "-\t-\t1\t1.00\t2\t7\t5\t3\t-\t20.5\t10.5\n0\t0\t1\t1.00\t2\t7\t5\t3\t0\t20.5\t10.5\n"
    )
    assert values(readings, "cpu0", "llc_references") == [2e6]
    assert [values(readings, "cpu0", f"c1{sign}_entries") for sign in ("", "_plus", "_minus")] == [[7], [5], [3]]
    assert values(readings, "socket0", "package_energy") == [20.5]
    assert values(readings, "socket0", "cores_energy") == [10.5]
    assert values(readings, "cpu0", "l3_entries") == []


def test_turbostat_of_a_core_with_its_own_power_meter() -> None:
    header = "Package\tCore\tCPU\tAvg_MHz\tBusy%\tCorWatt\tPkgWatt\n"
    readings = read_text("turbostat", header + "0\t0\t0\t1\t1.00\t3.5\t90.5\n0\t1\t1\t1\t1.00\t4.5\n")
    assert values(readings, "socket0/core0", "cores_power") == [3.5]
    assert values(readings, "socket0/core1", "cores_power") == [4.5]
    assert values(readings, "socket0", "package_power") == [90.5]


def test_perf_lines_with_further_metrics_are_no_kernel_log() -> None:
    origin = Origin("metrics")
    text = "200,,instructions,500,100.00,2.00,insn per cycle\n,,,,,0.50,stalled cycles per insn\n"
    text += "     1.000921300,,,,,,0.50,stalled cycles per insn\n"
    text += '{"metric-value" : "0.5", "metric-unit" : "stalled cycles per insn"}\n'
    assert len(list(stat.parse(iter(text.splitlines(keepends=True)), origin))) == 1
    assert origin.problems.count == 0


def test_perf_of_a_shared_cache() -> None:
    readings = read_text("perf", "S0-D0-L3-ID4,2,17,,cycles,100,100.00,,\n")
    assert values(readings, "socket0/die0/level3/cache4", "cycles") == [17]


def test_perf_with_decimal_commas_is_refused() -> None:
    with pytest.raises(ParseError, match="decimal commas"):
        read_text("perf", "12,74;Joules;power/energy-pkg/;1000;100,00;;\n")


def test_mlxconfig_of_two_devices() -> None:
    text = "".join(
        f"Device #{number}:\nDevice:  4b:00.{number}\nConfigurations:  Current  Next Boot\n"
        f"   NUM_OF_VFS  {number}  5\n   BOOT_VLAN  N/A  1\n"
        for number in (0, 1)
    )
    readings = read_text("mlxconfig", text)
    assert [values(readings, f"device:4b:00.{number}", "NUM_OF_VFS") for number in (0, 1)] == [[0], [1]]
    assert values(readings, "device:4b:00.0", "BOOT_VLAN") == [None]
    with pytest.raises(ParseError, match="Failed to open device"):
        read_text("mlxconfig", "-E- Failed to open device: 4b:00.0. No such device\n")


def test_devlink_before_reporter_was_a_word() -> None:
    readings = read_text("devlink", "pci/0000:03:00.0:\n  name tx state healthy error 1 recover 2\n")
    assert values(readings, "device:pci/0000:03:00.0/reporter:tx", "health_recovers") == [2]


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
