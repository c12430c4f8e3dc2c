# SPDX-License-Identifier: BSD-3-Clause
"""Test formats of which no recorded output exists: small texts in the form that their documentation describes."""

import json
from pathlib import Path

import pytest
from collector_samples import read_text, reason, values

from pollscope.collectors.iotlb import derive
from pollscope.collectors.nic_place import places
from pollscope.collectors.parsing import Problems
from pollscope.collectors.processor import Processor, read_processor
from pollscope.collectors.recording import Recorder, Recording
from pollscope.collectors.sample import Reading
from pollscope.collectors.sources import perf, perf_events
from pollscope.collectors.sources.pcm import PcmIio
from pollscope.collectors.sources.perf import PerfCorunner, in_base_units
from pollscope.collectors.tool import ToolCollector
from pollscope.testbeds.pair.config import PairHost
from pollscope.testbeds.pair.remote_host import RemoteHost


def recorded(folder: Path, collector: ToolCollector, text: str, *labels: str) -> list[Reading]:
    """Return what a collector reads from a recording of labels and a text."""
    recorder = Recorder(folder, collector.name, "stream")
    for label in labels:
        recorder.write(b"", label)
    recorder.write(text.encode())
    recorder.close()
    assert recorder.size_bytes > 0
    return list(collector.parse_recording(Recording.open(recorder.path), Problems()))


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


def test_the_corunner_is_watched_alone(tmp_path: Path) -> None:
    assert PerfCorunner().probe() == (False, "the run has no co-runner")
    assert "-p 4711" in " ".join(PerfCorunner(pid=4711).arguments(10**8))
    arguments = " ".join(PerfCorunner(cpus=[3, 5]).arguments(10**8))
    assert "-a -C 3,5" in arguments
    assert "-A" not in arguments.split()
    rows = "".join(
        f'{{"interval": 0.1, "counter-value": "{count}", "unit": "", "event": "{event}"}}\n'
        for event, count in (("instructions", 900), ("cycles", 600))
    )
    readings = recorded(tmp_path, PerfCorunner(pid=1), rows)
    assert values(readings, "corunner", "instructions") == [900]
    assert values(readings, "corunner", "cycles") == [600]


def test_the_amd_iommu_speaks_the_same_vocabulary(tmp_path: Path) -> None:
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
    # the host that parses has no such PMU, and another processor
    monkeypatch.setattr(perf_events, "host_uncore_events", lambda *_: [])
    monkeypatch.setattr(perf, "PMUS", tmp_path / "none")
    labels = (
        "nics 0000:4b:00.0,0000:4b:00.1 at socket0/stack3/part0",
        "nics 0000:02:00.0 nowhere: it is not below a root port",
    )
    rows = ""
    for socket, count in (("S0", 1000), ("S1", 7)):
        for event in ("uncore_iio_3__dma_write_part0", "uncore_iio_3__dma_read_part1"):
            row = {"interval": 1.0, "socket": socket, "counters": 1, "counter-value": f"{count}.000000", "unit": ""}
            rows += json.dumps({**row, "event": event}) + "\n"
    readings = recorded(tmp_path, perf.Uncore(), rows, *labels)
    nic = "nic:0000:4b:00.0,0000:4b:00.1"
    assert values(readings, nic, "nic_dma_write") == [4000]
    assert values(readings, nic, "nic_dma_read") == []
    assert values(readings, "socket0/stack3/part0", "dma_write") == [4000]
    assert values(readings, "socket1/stack3/part0", "dma_write") == [28]
    assert reason(readings, "nic:0000:02:00.0", "nic_dma_write") == "it is not below a root port"


def test_pcm_numbers_stacks_as_the_kernel_does(tmp_path: Path) -> None:
    header = "Socket,Name,Part,IB write,IB read,OB read,OB write,IOTLB Lookup,IOTLB Miss\n"
    rows = "Socket0,IIO Stack 3 - PCIe2,Part0 (1st x16/x8/x4),100,20,3,4,9,1\n"
    rows += "Socket0,IIO Stack 3 - PCIe2,Part1 (1st x16/x8/x4),101,20,3,4\n"
    readings = recorded(tmp_path, PcmIio(), header + rows, "nics 0000:4b:00.0 at socket0/stack3/part0")
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
    host = {"ssh": {"host": "dut"}, "ports": {"rx": "0000:17:00.0", "tx": "0000:17:00.1"}, "main_cpu": 0, "cpus": [1]}
    dut = RemoteHost("dut", PairHost.model_validate(host), "prefix")
    assert dut.options("pcm-iio") == dut.options("perf-uncore") == {"nics": ["0000:17:00.0", "0000:17:00.1"]}
    virtual = {**host, "ports": {"rx": "net_memif0", "tx": "net_memif0"}}
    assert RemoteHost("dut", PairHost.model_validate(virtual), "prefix").options("pcm-iio") == {}


def test_processor_of_this_machine() -> None:
    processor = read_processor()
    assert processor.vendor and processor.name
