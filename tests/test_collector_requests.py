# SPDX-License-Identifier: BSD-3-Clause
"""What collectors ask the kernel and their tools for, and what they keep between two snapshots."""

import struct
from pathlib import Path

import pytest

from pollscope.collectors import ethtool_ioctl, perf
from pollscope.collectors.ethtool_ioctl import Statistics
from pollscope.collectors.host_files import KernelLoad

INTERVAL_NS = 100_000_000


def events(collector: perf.Perf) -> str:
    words = list(collector.arguments(INTERVAL_NS))
    return words[words.index("-e") + 1]


@pytest.mark.parametrize("pmu", ["cpu", "cpu_core", "armv8_pmuv3_0"])
def test_hardware_events_are_asked_for_where_there_is_a_pmu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pmu: str
) -> None:
    monkeypatch.setattr(perf, "PMUS", tmp_path)
    (tmp_path / "software").mkdir()
    assert events(perf.Perf()) == "task-clock,context-switches,cpu-migrations,page-faults"
    assert events(perf.Perf(events=("cycles",))) == "cycles", "what was asked for by name is asked for"
    (tmp_path / pmu).mkdir()
    assert events(perf.Perf()).endswith("page-faults,cycles,instructions,cache-references,cache-misses")


def test_counters_of_a_nic_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's answers are made here: no NIC changes its counters on demand."""
    counters = {"rx_packets": 1, "rx_drops": 2}

    def call(_socket: object, _interface: str, head: bytes, room: int) -> bytes:
        command = struct.unpack_from("=I", head)[0]
        if command == ethtool_ioctl._GSSET_INFO:
            return struct.pack("=IIQI", command, 0, 1 << ethtool_ioctl._SET_STATS, len(counters))
        if command == ethtool_ioctl._GSTRINGS:
            return head + b"".join(name.encode().ljust(32, b"\0") for name in counters)
        assert room == 8 * len(counters)
        return head + struct.pack(f"={len(counters)}Q", *counters.values())

    monkeypatch.setattr(ethtool_ioctl, "_call", call)
    nic = Statistics("eth9")
    assert nic.listing() == b"NIC statistics:\n     rx_packets: 1\n     rx_drops: 2\n"
    counters["rx_drops"] = 7
    assert nic.listing().endswith(b"     rx_drops: 7\n")
    counters = {"rx_packets": 3, "rx_queue_0_packets": 4}
    assert nic.listing() == b"NIC statistics:\n     rx_packets: 3\n     rx_queue_0_packets: 4\n"
    nic.close()


def test_files_of_proc_are_read_whole_and_from_their_beginning_each_time() -> None:
    collector = KernelLoad()
    for _ in range(2):
        texts = dict(collector.snapshot())
        assert texts["stat"].startswith(b"cpu ")
        assert b"\nsoftirq " in texts["stat"]
        assert texts["interrupts"].split()[0] == b"CPU0"
        assert texts["softirqs"].rstrip().splitlines()[-1].split()[0] == b"RCU:"
    collector.release()
