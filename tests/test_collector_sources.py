# SPDX-License-Identifier: BSD-3-Clause
"""Test formats of which no recorded output exists: small texts in the form that their documentation describes."""

import json
from pathlib import Path

import pytest
from collector_samples import OWN, OWN_SAMPLES, PARSERS, read_text, reason, values

from pollscope.collectors.parsing import Origin, ParseError, Problems
from pollscope.collectors.processor import Processor, read_processor
from pollscope.collectors.sources import perf_events
from pollscope.collectors.sources.perf import in_base_units


@pytest.mark.parametrize("path", OWN_SAMPLES, ids=lambda path: path.name)
def test_small_texts_are_read_whole(path: Path) -> None:
    parser, *label, _ = path.name.split(".")
    origin = Origin(path.name, label="".join(label))
    with path.open(encoding="utf-8") as lines:
        assert list(PARSERS[parser](lines, origin))
    assert origin.problems.count == 0


def test_parts_of_a_stack_are_mapped_to_devices() -> None:
    text = (
        "Socket1\n|IIO Stack 4 - PCIe3|IB write|IB read|OB read|OB write|\n| Part0 |  12 M  |  0   |  0   |  0   |\n"
        "|0000:65:00.0|Gen3 x8 |14E4:16D7 Broadcom BCM57414; Part: 0, 1\n"
    )
    readings = read_text("pcm-iio", text)
    assert values(readings, "socket1/stack4:PCIe3/part1", "device") == ["0000:65:00.0"]
    assert values(readings, "socket1/stack4:PCIe3/part0", "dma_write") == [12000000]


def test_pcm_power() -> None:
    text = (
        "Time elapsed: 1000 ms\n"
        "S0; Consumed energy units: 876; Consumed Joules: 1339.15; Watts: 67.11; Thermal headroom below TjMax: 37\n"
        "S0; Consumed DRAM energy units: 361152; Consumed DRAM Joules: 23.1; DRAM Watts: 23.54\n"
        "S1CH2; DRAMClocks: 933; CKE Off Residency: 12.50%; Self-refresh Residency: -nan%\n"
        "----------\nS0; Watts: 70.00\n"
    )
    readings = read_text("pcm-power", text)
    assert values(readings, "socket0", "package_power") == [67.11, 70.0]
    assert values(readings, "socket0", "thermal_headroom") == [37]
    assert values(readings, "socket0", "dram_energy") == [23.1]
    assert values(readings, "socket1/channel2", "cke_off_residency_share") == [0.125]
    assert values(readings, "socket1/channel2", "self_refresh_residency_share") == [None]


def test_neohost() -> None:
    document = {
        "counters": [
            {"counter": {"name": "Level 0 MTT Cache Miss", "value": "1,234,567"}},
            {"counter": {"name": "PCIe Internal Back Pressure", "value": 12}},
        ],
        "analysis": [
            {"analysisAttribute": {"name": "PCIe Avg Latency", "units": "NS", "value": 812}},
            {"analysisAttribute": {"name": "PCIe Inbound Used BW", "units": "Gb/s", "value": 80.0}},
            {"analysisAttribute": {"name": "RX BandWidth", "units": "Gb/s", "value": "N/A"}},
        ],
    }
    readings = read_text("neohost", "\x1b[0mstarting\n" + json.dumps(document), "0000:3d:00.1")
    device = "device:0000:3d:00.1"
    assert values(readings, device, "mtt_cache_l0_misses") == [1234567]
    assert values(readings, device, "pcie_latency_mean") == [pytest.approx(812e-9)]
    assert values(readings, device, "pcie_inbound") == [10e9]
    assert values(readings, device, "rx_bandwidth") == [None]
    with pytest.raises(ParseError, match="truncated"):
        read_text("neohost", json.dumps(document)[:-10])


def test_mlxconfig() -> None:
    text = (
        "Device #1:\n----------\nDevice type:    ConnectX5\nConfigurations:                      Current\n"
        "         LOG_MAX_OUTSTANDING_WQE             7\n         CQE_COMPRESSION         AGGRESSIVE(1)\n"
        "         PCI_WR_ORDERING_VERY_LONG_NAME per_mkey(0)\n"
        "         HOST_CHAINING_DESCRIPTORS           Array[0..7]\n"
    )
    readings = read_text("mlxconfig", text, "4b:00.0")
    assert values(readings, "device:4b:00.0", "LOG_MAX_OUTSTANDING_WQE") == [7]
    assert values(readings, "device:4b:00.0", "CQE_COMPRESSION") == ["AGGRESSIVE"]
    assert values(readings, "device:4b:00.0", "CQE_COMPRESSION.number") == [1]
    assert values(readings, "device:4b:00.0", "PCI_WR_ORDERING_VERY_LONG_NAME") == ["per_mkey"]
    assert values(readings, "device:4b:00.0", "HOST_CHAINING_DESCRIPTORS") == [None]
    extended = "Configurations:    Default   Current   Next Boot\n*  MAX_ACC_OUT_READ    0    44    55\n"
    assert values(read_text("mlxconfig", extended), "device", "MAX_ACC_OUT_READ") == [44]


def test_devlink_health_as_text_and_as_json() -> None:
    text = (
        "pci/0000:3b:00.0:\n  reporter fw\n    state healthy error 0 recover 0 auto_dump true\n"
        "  reporter fw_fatal\n    state error error 3 recover 2 last_dump_date 2026-01-01 last_dump_time 10:00:00\n"
    )
    readings = read_text("devlink", text)
    assert values(readings, "device:pci/0000:3b:00.0/reporter:fw", "health") == ["healthy"]
    assert values(readings, "device:pci/0000:3b:00.0/reporter:fw_fatal", "health_errors") == [3]
    document = {"health": {"pci/0000:3b:00.0": [{"reporter": "tx", "state": "healthy", "error": 1, "recover": 1}]}}
    readings = read_text("devlink", json.dumps(document))
    assert values(readings, "device:pci/0000:3b:00.0/reporter:tx", "health_recovers") == [1]


def test_dmar_perf_latency() -> None:
    text = (
        "IOMMU: dmar0 Register Base Address: d0000000\n"
        "                  <0.1us   0.1us-1us    1us-10us  >=10ms     min(us)     max(us) average(us)\n"
        "   inv_iotlb           0         286         123       0           0           3           1\n"
    )
    readings = read_text("vtd-latency", text)
    assert values(readings, "iommu:dmar0", "inv_iotlb_latency_max") == [3e-6]
    assert values(readings, "iommu:dmar0", "inv_iotlb_latency_count:0.1us-1us") == [286]


def test_kernel_load() -> None:
    stat = "cpu  10 0 20 300 0 1 2 7 0 0\ncpu1 5 0 10 150 0 0 1 6 0 0\nintr 12 3\nctxt 4321\nprocs_running 2\n"
    readings = read_text("kernel-load", stat, "stat")
    assert values(readings, "cpu1", "steal_ticks") == [6]
    assert values(readings, "system", "context_switches") == [4321]
    table = "           CPU0       CPU2\n"
    table += "  24:         11         22   PCI-MSI 49152-edge      mlx5_comp0\nERR:          3\n"
    readings = read_text("kernel-load", table, "interrupts")
    assert values(readings, "cpu2", "irq:24:mlx5_comp0") == [22]
    assert values(readings, "system", "irq:ERR") == [3]
    cut = read_text("kernel-load", f"{table}LOC:          7\n  25:          8\n", "interrupts")
    assert cut == readings
    with pytest.raises(ParseError, match="no header of CPUs"):
        read_text("kernel-load", "rubbish\n", "softirqs")


def test_kernel_log_and_registers() -> None:
    readings = read_text(
        "kernel-log", "4,812,98765432,-;mlx5_core: PCIe slot advertised insufficient power\n SUBSYSTEM=pci\n"
    )
    assert readings[0].t_ns == 98765432000
    assert values(readings, "system", "message") == ["mlx5_core: PCIe slot advertised insufficient power"]
    assert values(read_text("aperf", "cpu3 0xe8 ff\n"), "cpu3", "aperf") == [255]


def test_pcie_link_and_ordering() -> None:
    from test_collector_traps import config_space

    readings = read_text("pcie", f"device 0000:17:00.0 nic 15b3:1019 {config_space(0)}\n")
    device = "device:0000:17:00.0"
    assert values(readings, device, "max_payload") == [256]
    assert values(readings, device, "max_read_request") == [512]
    assert values(readings, device, "relaxed_ordering") == [1]
    assert values(readings, device, "tags") == [32]
    assert (values(readings, device, "link_speed"), values(readings, device, "link_width")) == ([8e9], [8])
    short = read_text("pcie", "device 0000:00:03.0 nic 1af4:1000 f41a0010\n")
    assert "no PCI Express capability" in reason(short, "device:0000:00:03.0", "max_payload")


def test_turbostat_glued_columns() -> None:
    with pytest.raises(ParseError, match="ran together in the header"):
        read_text("turbostat", "CPU\tAvg_MHz\tTotl%C0Any%C0\n-\t100\t5.0\n")
    text = "CPU\tAvg_MHz\tPkgWatt\tRAMWatt\n-\t100\t261.67100.52\n0\t100\t261.67\t10.5\n"
    readings = read_text("turbostat", text)
    assert values(readings, "system", "average_frequency") == []
    assert values(readings, "socket0", "dram_power") == [10.5]


def test_rapl_wraps_are_left_to_the_reader() -> None:
    text = "/sys/class/powercap/intel-rapl:0/energy_uj=123456789\n"
    text += "/sys/class/powercap/intel-rapl:0:0/energy_uj!Permission denied\n"
    readings = read_text("cpufreq", text)
    assert values(readings, "powercap:intel-rapl:0", "energy") == [pytest.approx(123.456789)]
    assert reason(readings, "powercap:intel-rapl:0:0", "energy") == "Permission denied"
    cut_off = read_text("rapl", text.replace("Permission denied", ""))
    assert reason(cut_off, "powercap:intel-rapl:0:0", "energy") == "cannot be read"


def test_rapl_zones_are_those_of_their_sockets() -> None:
    zones = {
        "0": "package-0",
        "0:0": "dram",
        "0:1": "core",
        "1": "package-1-die-1",
        "1:0": "dram",
        "2": "psys",
        "3": "odd",
    }
    snapshot = "".join(
        f"/sys/class/powercap/intel-rapl:{zone}/energy_uj={1000000 * (index + 1)}\n"
        f"/sys/class/powercap/intel-rapl:{zone}/max_energy_range_uj=262143328850\n"
        f"/sys/class/powercap/intel-rapl:{zone}/name={name}\n"
        for index, (zone, name) in enumerate(zones.items())
    )
    readings = read_text("cpufreq", snapshot + snapshot.replace("000000\n", "500000\n"))
    assert values(readings, "socket0", "package_energy") == [1.0, 1.5]
    assert values(readings, "socket0", "package_energy_range") == [262143.32885] * 2
    assert values(readings, "socket0", "dram_energy") == [2.0, 2.5]
    assert values(readings, "socket0", "cores_energy") == [3.0, 3.5]
    assert values(readings, "socket1/die1", "package_energy") == [4.0, 4.5]
    assert values(readings, "socket1/die1", "dram_energy") == [5.0, 5.5]
    assert values(readings, "system", "platform_energy") == [6.0, 6.5]
    assert values(readings, "powercap:intel-rapl:3", "energy") == [7.0, 7.5]


@pytest.fixture
def pmus(tmp_path: Path) -> Path:
    for name in ("uncore_iio_0", "uncore_iio_3", "uncore_irp_3", "uncore_imc_1", "dmar0", "cpu"):
        (tmp_path / name / "events").mkdir(parents=True)
    for event in ("iotlb_lookup", "iotlb_hit", "pw_occupancy"):
        (tmp_path / "dmar0" / "events" / event).touch()
    return tmp_path


def test_uncore_events_are_those_of_the_generation(pmus: Path) -> None:
    def metrics(model: int) -> set[str]:
        return {
            event.metric
            for event in perf_events.host_uncore_events(Processor("GenuineIntel", 6, model, "", False), pmus)
        }

    assert {"iotlb_hits", "iotlb_misses"} <= metrics(85)
    assert "iotlb_lookups" not in metrics(85)
    assert {"iotlb_lookups", "iotlb_misses"} <= metrics(106)
    sapphire_rapids = perf_events.host_uncore_events(Processor("GenuineIntel", 6, 143, "", False), pmus)
    places = {event.unit_path for event in sapphire_rapids if event.metric == "dma_write"}
    assert any(place.endswith("/part7") for place in places)  # the vocabulary of pcm-iio: part of a stack
    (irp,) = (event for event in sapphire_rapids if event.metric == "irp_queue_occupancy")
    assert irp.perf_name == "uncore_irp_3/event=0x19,umask=0x0,name=uncore_irp_3__irp_queue_occupancy/"
    assert (irp.unit_path, irp.unit) == ("stack3", "cycles")  # of the IIO stack whose requests it orders
    assert metrics(167) == set()
    assert perf_events.host_uncore_events(Processor("AuthenticAMD", 25, 17, "", True), pmus) == []


def test_vtd_events_are_those_that_the_unit_offers(pmus: Path) -> None:
    from pollscope.collectors.iotlb import derive

    assert len(perf_events.named_events(pmus, "dmar")) == 3
    rows = "".join(
        f'{{"interval" : 1.0, "counter-value" : "{count}", "unit" : "", "event" : "dmar0/{event}/"}}\n'
        for event, count in (("iotlb_lookup", 1000), ("iotlb_hit", 900), ("pw_occupancy", 50000))
    )
    readings = list(derive(in_base_units(reading) for reading in read_text("perf", rows)))
    unit = "system/iommu:dmar0"
    assert values(readings, unit, "iotlb.misses") == [100]
    assert values(readings, unit, "iotlb.miss_share") == [0.1]
    assert values(readings, unit, "iotlb.walk_latency") == [500]


def test_processor_of_this_machine() -> None:
    processor = read_processor()
    assert processor.vendor
    assert processor.name


def test_the_corunner_is_watched_alone(tmp_path: Path) -> None:
    from pollscope.collectors.recording import Recorder, Recording
    from pollscope.collectors.sources.perf import PerfCorunner

    assert PerfCorunner().probe() == (False, "the run has no co-runner")
    assert "-p 4711" in " ".join(PerfCorunner(pid=4711).arguments(10**8))
    arguments = " ".join(PerfCorunner(cpus=[3, 5]).arguments(10**8))
    assert "-a -C 3,5" in arguments
    assert "-A" not in arguments.split()
    recorder = Recorder(tmp_path, "perf-corunner", "stream")
    for event, count in (("instructions", 900), ("cycles", 600)):
        row = {"interval": 0.1, "counter-value": str(count), "unit": "", "event": event}
        recorder.write((json.dumps(row) + "\n").encode())
    recorder.close()
    readings = list(PerfCorunner(pid=1).parse_recording(Recording.open(recorder.path), Problems()))
    assert values(readings, "corunner", "instructions") == [900]
    assert values(readings, "corunner", "cycles") == [600]


def test_the_amd_iommu_speaks_the_same_vocabulary(tmp_path: Path) -> None:
    from pollscope.collectors.iotlb import derive

    events = tmp_path / "amd_iommu_0" / "events"
    events.mkdir(parents=True)
    for name in ("mem_iommu_tlb_pte_hit", "mem_iommu_tlb_pte_mis", "page_tbl_read_tot", "mem_trans_total"):
        (events / name).touch()
    assert len(perf_events.named_events(tmp_path, "amd_iommu")) == 4
    rows = "".join(
        f"1.000000000;S0;1;{count};;amd_iommu_0/{event}/;1000;100.00;;\n"
        for event, count in (
            ("mem_iommu_tlb_pte_hit", 970),
            ("mem_iommu_tlb_pte_mis", 30),
            ("page_tbl_read_tot", 120),
        )
    )
    readings = list(derive(in_base_units(reading) for reading in read_text("perf", rows)))
    unit = "socket0/iommu:amd_iommu_0"
    assert values(readings, unit, "iotlb.lookups") == [1000]
    assert values(readings, unit, "iotlb.miss_share") == [0.03]
    assert values(readings, unit, "iommu_memory_accesses") == [120]


def test_interrupts_of_each_cpu_and_those_of_none() -> None:
    text = (OWN / "kernel-load.interrupts.txt").read_text(encoding="utf-8")
    readings = read_text("kernel-load", text, "interrupts")
    assert values(readings, "cpu1", "irq:24:mlx5_comp0@pci:0000:17:00.0") == [123456]
    assert values(readings, "cpu3", "irq:LOC") == [1012345]  # CPU 2 is offline: it has no column
    assert values(readings, "cpu2", "irq:LOC") == []
    assert values(readings, "system", "irq:ERR") == [0]


def test_throttling_and_idle_states_of_a_cpu() -> None:
    cpu = "/sys/devices/system/cpu/cpu3"
    readings = read_text(
        "cpufreq",
        f"{cpu}/thermal_throttle/core_throttle_count=12\n"
        f"{cpu}/thermal_throttle/package_throttle_total_time_ms=1500\n"
        f"{cpu}/cpuidle/state2/name=C6\n{cpu}/cpuidle/state2/time=2500000\n{cpu}/cpuidle/state2/usage=42\n"
        f"{cpu}/cpuidle/state2/latency=133\n{cpu}/cpuidle/state2/disable=1\n",
    )
    assert values(readings, "cpu3", "core_throttle_events") == [12]
    assert values(readings, "cpu3", "package_throttle_time") == [1.5]
    assert values(readings, "cpu3/state2", "residency") == [2.5]
    assert values(readings, "cpu3/state2", "entries") == [42]
    assert values(readings, "cpu3/state2", "exit_latency") == [pytest.approx(133e-6)]
    assert values(readings, "cpu3/state2", "disabled") == [1]


@pytest.fixture
def two_sockets(tmp_path: Path) -> Path:
    """sysfs of a two-socket Ice Lake server: root buses as in the kernel's commit c1777be3646b, a NIC of two functions
    below 4a:02.0, one below 97:04.0, one at the chipset."""
    devices = {
        "0000:4a": {"0000:4a:02.0": ["0000:4b:00.0", "0000:4b:00.1"]},
        "0000:97": {"0000:97:04.0": ["0000:98:00.0"]},
        "0000:00": {"0000:00:1c.0": ["0000:02:00.0"], "0000:00:00.0": ["0000:01:00.0"]},
        "0000:fe": {"0000:fe:02.0": ["0000:ff:00.0"]},
    }
    buses = {0: ("0000:16", "0000:97"), 1: ("0000:30", "0000:b0"), 3: ("0000:4a", "0000:c9"), 5: ("0000:00", "0000:80")}
    for stack, dies in buses.items():
        for die, bus in enumerate(dies):
            file = tmp_path / f"bus/event_source/devices/uncore_iio_{stack}/die{die}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{bus}\n")
    (tmp_path / "bus/pci/devices").mkdir(parents=True)
    for bus, ports in devices.items():
        for port, below in ports.items():
            for address in below:
                nic = tmp_path / f"devices/pci{bus}" / port / address
                nic.mkdir(parents=True)
                (nic / "class").write_text("0x020000\n")
                (tmp_path / "bus/pci/devices" / address).symlink_to(nic)
    return tmp_path


ICE_LAKE = Processor("GenuineIntel", 6, 106, "Ice Lake", False)


def test_a_nic_is_found_by_its_root_port_and_the_stack_that_watches_its_bus(two_sockets: Path) -> None:
    from pollscope.collectors.nic_place import places

    found = places((), ICE_LAKE, two_sockets)
    assert "nics 0000:4b:00.0,0000:4b:00.1 at socket0/stack3/part0" in found
    assert "nics 0000:98:00.0 at socket1/stack0/part2" in found
    assert any(each.startswith("nics 0000:01:00.0 nowhere: the root port 0000:00:00.0 is not one of") for each in found)
    assert any("0000:ff:00.0 nowhere: the kernel names no IIO PMU for the root bus 0000:fe" in each for each in found)
    assert places(["0000:98:00.0"], ICE_LAKE, two_sockets) == ["nics 0000:98:00.0 at socket1/stack0/part2"]
    sapphire_rapids = Processor("GenuineIntel", 6, 143, "Sapphire Rapids", False)
    assert places(["0000:98:00.0"], sapphire_rapids, two_sockets) == ["nics 0000:98:00.0 at socket1/stack0/part3"]
    (unknown,) = places(["0000:98:00.0"], Processor("AuthenticAMD", 25, 17, "EPYC", False), two_sockets)
    assert "the counters of root ports are unknown for EPYC" in unknown


def test_a_nics_own_traffic_is_reported_beside_the_sum_for_every_parser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pollscope.collectors.recording import Recorder, Recording
    from pollscope.collectors.sources import perf, perf_events

    # the host that parses has no such PMU, and another processor
    monkeypatch.setattr(perf_events, "host_uncore_events", lambda *_: [])
    monkeypatch.setattr(perf, "PMUS", tmp_path / "none")
    recorder = Recorder(tmp_path, "perf-uncore", "stream")
    recorder.write(b"", "nics 0000:4b:00.0,0000:4b:00.1 at socket0/stack3/part0")
    recorder.write(b"", "nics 0000:02:00.0 nowhere: it is not below a root port")
    for socket, count in (("S0", 1000), ("S1", 7)):
        for event in ("uncore_iio_3__dma_write_part0", "uncore_iio_3__dma_read_part1"):
            row = {"interval": 1.0, "socket": socket, "counters": 1, "counter-value": f"{count}.000000", "unit": ""}
            recorder.write((json.dumps({**row, "event": event}) + "\n").encode())
    recorder.close()
    assert recorder.size_bytes > 0
    readings = list(perf.Uncore().parse_recording(Recording.open(recorder.path), Problems()))
    nic = "nic:0000:4b:00.0,0000:4b:00.1"
    assert values(readings, nic, "nic_dma_write") == [4000]
    assert values(readings, nic, "nic_dma_read") == []
    assert values(readings, "socket0/stack3/part0", "dma_write") == [4000]
    assert values(readings, "socket1/stack3/part0", "dma_write") == [28]
    assert reason(readings, "nic:0000:02:00.0", "nic_dma_write") == "it is not below a root port"


def test_pcm_numbers_stacks_as_the_kernel_does(tmp_path: Path) -> None:
    from pollscope.collectors.recording import Recorder, Recording
    from pollscope.collectors.sources.pcm import PcmIio

    recorder = Recorder(tmp_path, "pcm-iio", "stream")
    recorder.write(b"", "nics 0000:4b:00.0 at socket0/stack3/part0")
    header = "Socket,Name,Part,IB write,IB read,OB read,OB write,IOTLB Lookup,IOTLB Miss\n"
    for part in range(2):
        row = (
            f"Socket0,IIO Stack 3 - PCIe2,Part{part} (1st x16/x8/x4),{100 + part},20,3,4{',9,1' if not part else ''}\n"
        )
        recorder.write((header if not part else "").encode() + row.encode())
    recorder.close()
    readings = list(PcmIio().parse_recording(Recording.open(recorder.path), Problems()))
    assert values(readings, "nic:0000:4b:00.0", "nic_dma_write") == [100]
    assert values(readings, "nic:0000:4b:00.0", "nic_dma_read") == [20]
    assert values(readings, "socket0/stack3:PCIe2/part1", "dma_write") == [101]


def test_amd_and_arm_count_in_the_same_words(tmp_path: Path) -> None:
    for name in ("amd_df", "amd_umc_0", "amd_umc_12", "amd_l3", "arm_cmn_0"):
        (tmp_path / name / "events").mkdir(parents=True)
    for event in ("hnf_mc_reqs", "hnf_cache_miss", "hnf_sf_hit"):
        (tmp_path / "arm_cmn_0" / "events" / event).touch()
    genoa = perf_events.host_uncore_events(Processor("AuthenticAMD", 25, 17, "", False), tmp_path)
    asked = {event.perf_name: event for event in genoa}
    read = asked["amd_umc_12/event=0xa,rdwrmask=0x1,name=amd_umc_12__dram_read/"]
    assert (read.metric, read.unit, read.scale, read.unit_path) == ("dram_read", "B", 64, "channel12")
    dma = asked["amd_df/event=0x85f,umask=0x7fe,name=amd_df__dma_read_local_io1/"]
    assert (dma.metric, dma.unit, dma.scale, dma.unit_path) == ("dma_read_local", "B", 64, "io1")
    turin = perf_events.host_uncore_events(Processor("AuthenticAMD", 26, 2, "", False), tmp_path)
    assert {event.metric for event in turin if event.perf_name.startswith("amd_df")} == {"dma_read", "dma_write"}
    arm = perf_events.host_uncore_events(Processor("", 0, 0, "", False), tmp_path)
    assert [(event.perf_name, event.metric, event.unit_path) for event in arm] == [
        ("arm_cmn_0/hnf_cache_miss/", "slc_misses", "mesh:arm_cmn_0"),
        ("arm_cmn_0/hnf_mc_reqs/", "memory_requests", "mesh:arm_cmn_0"),
    ]


def test_a_metric_has_one_unit_and_factor_in_all_generations() -> None:
    said: dict[tuple[str, str], tuple[str, float]] = {}
    for generation in perf_events.generations():
        for entry in generation.events:
            assert said.setdefault((entry.pmu, entry.metric), (entry.unit, entry.scale)) == (entry.unit, entry.scale)


def test_a_pair_gets_the_nic_whose_traffic_is_requested() -> None:
    from pollscope.testbeds.pair.config import PairHost
    from pollscope.testbeds.pair.remote_host import RemoteHost

    host = {"ssh": {"host": "dut"}, "ports": {"rx": "0000:17:00.0", "tx": "0000:17:00.1"}, "main_cpu": 0, "cpus": [1]}
    dut = RemoteHost("dut", PairHost.model_validate(host), "prefix")
    assert dut.options("pcm-iio") == dut.options("perf-uncore") == {"nics": ["0000:17:00.0", "0000:17:00.1"]}
    virtual = {**host, "ports": {"rx": "net_memif0", "tx": "net_memif0"}}
    assert RemoteHost("dut", PairHost.model_validate(virtual), "prefix").options("pcm-iio") == {}
