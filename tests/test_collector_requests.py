# SPDX-License-Identifier: BSD-3-Clause
"""Test requests of collectors to the kernel and their tools, and state that they keep between two snapshots."""

import struct
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pollscope.base.errors import HostError
from pollscope.collectors.parsing import Problems
from pollscope.collectors.recording import Recorder, Recording
from pollscope.collectors.sample import tidy
from pollscope.collectors.sources import ethtool, pcm, perf
from pollscope.collectors.sources.ethtool import Statistics
from pollscope.collectors.sources.host import KernelLoad

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

    def answer(_nic: Statistics, head: bytes, room: int) -> bytes:
        command = struct.unpack_from("=I", head)[0]
        if command == ethtool._GSSET_INFO:
            return struct.pack("=IIQI", command, 0, 1 << ethtool._SET_STATS, len(counters))
        if command == ethtool._GSTRINGS:
            return head + b"".join(name.encode().ljust(32, b"\0") for name in counters)
        assert room == 8 * len(counters)
        return head + struct.pack(f"={len(counters)}Q", *counters.values())

    monkeypatch.setattr(Statistics, "_answer", answer)
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


def tool(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_settings_of_a_nic_whose_driver_has_no_rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = '-i) echo "driver: virtio_net" ;; -c) echo "rx-usecs: 8" ;; *) echo "not supported" >&2; exit 95 ;;'
    tool(tmp_path, "ethtool", f'case $1 in {answers} esac; [ "$2" = eth9 ]', monkeypatch)
    collector = ethtool.EthtoolSettings(("eth9",))
    assert collector.probe() == (True, "eth9")
    recorder = Recorder(tmp_path, collector.name, "snapshots")
    for label, text in collector.snapshot():
        recorder.write(text, label)
    recorder.close()
    found = tidy(collector.name, collector.parse_recording(Recording.open(recorder.path), Problems()))
    assert [(each.unit_path, each.metric, each.value) for each in found] == [
        ("port:eth9", "driver", "virtio_net"),
        ("port:eth9", "rx_usecs", 8),
    ]
    with pytest.raises(HostError, match="ethtool"):
        list(ethtool.EthtoolSettings(("eth8",)).snapshot())


def test_perf_iostat_is_asked_for_where_the_kernel_shows_an_iio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf, "PMUS", tmp_path)
    tool(tmp_path, "perf", "exit 0", monkeypatch)
    assert not perf.PerfIostat().probe().available
    (tmp_path / "uncore_iio_0").mkdir()
    assert perf.PerfIostat().probe().available
    assert list(perf.PerfIostat().arguments(1_000_000)) == ["stat", "--iostat", "--log-fd", "1", "-I", "10"]


class Scraped(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/metrics" else 404)
        self.end_headers()
        self.wfile.write(b'DRAM_Reads{socket="1",aggregate="socket"} 64\n')

    def log_message(self, *_: object) -> None:
        pass


def test_a_sensor_server_is_scraped_once_per_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with HTTPServer(("127.0.0.1", 0), Scraped) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert pcm.PcmSensorServer(f"{url}/metrics").probe().available
        assert list(pcm.PcmSensorServer(f"{url}/metrics").snapshot()) == [
            ("", b'DRAM_Reads{socket="1",aggregate="socket"} 64\n')
        ]
        assert "404" in pcm.PcmSensorServer(f"{url}/").probe().reason
        server.shutdown()
    assert "no pcm-sensor-server answers" in pcm.PcmSensorServer(f"{url}/metrics").probe().reason
