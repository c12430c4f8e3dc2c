# SPDX-License-Identifier: BSD-3-Clause
"""Test the collector of QEMU's IOTLB trace: its parser on a recorded trace, and it against a stand-in monitor."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from collector_samples import OWN, read_text, values

from pollscope.base.errors import HostError
from pollscope.collectors.iotlb import derive
from pollscope.collectors.parsers.qemu_vtd import EVENTS
from pollscope.collectors.parsing import ParseError
from pollscope.collectors.registry import create
from pollscope.collectors.sources.qemu_vtd import QemuVtd

# Recorded on the DUT of a vm-pair that forwarded 2000 packets per second; the first events of the interval.
SLICE_NS = "25754947"
LINES = (OWN / f"qemu-vtd.{SLICE_NS}.txt").read_text()


def test_counts_of_a_recorded_interval_become_rates() -> None:
    readings = list(derive(read_text("qemu-vtd", LINES, SLICE_NS)))
    for event, metric in EVENTS.items():
        assert values(readings, "emulated", metric) == [pytest.approx(LINES.count(event + " ") / 0.025754947)]
    hits, misses = LINES.count("page_hit"), LINES.count("page_update")
    assert hits > 100
    assert values(readings, "emulated", "iotlb.lookups") == [pytest.approx((hits + misses) / 0.025754947)]
    assert values(readings, "emulated", "iotlb.miss_share") == [pytest.approx(misses / (hits + misses))]


@pytest.mark.parametrize("label", ["", "0", "-5", "soon"])
def test_an_interval_without_length_is_refused(label: str) -> None:
    with pytest.raises(ParseError, match="length"):
        read_text("qemu-vtd", LINES, label)


def test_without_a_virtual_machine_it_is_absent(tmp_path: Path) -> None:
    assert not QemuVtd().probe().available
    with pytest.raises(HostError, match="does not answer"):
        create("qemu-vtd", monitor=str(tmp_path / "none")).probe()


class Qemu:
    """Speaks the machine protocol, and writes the recorded trace when its log is switched on."""

    def __init__(self, folder: Path) -> None:
        self.path, self.said = folder / "dut.monitor", list[str]()
        self.trace: Path | None = None
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(self.path))
        self.server.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            with client, client.makefile("rw", encoding="utf-8") as file:
                self._answer(file, {"QMP": {}})
                for line in file:
                    self._command(json.loads(line))
                    self._answer(file, {"event": "RTC_CHANGE"})
                    self._answer(file, {"return": "" if "human" in line else {}})

    def _command(self, request: dict[str, dict[str, str]]) -> None:
        line = request.get("arguments", {}).get("command-line", "")
        self.said.append(line)
        if line.startswith("logfile "):
            self.trace = Path(line.removeprefix("logfile "))
        elif line.startswith("log trace:"):
            assert self.trace is not None
            self.trace.write_text(LINES)

    @staticmethod
    def _answer(file: TextIO, reply: dict[str, object]) -> None:
        file.write(json.dumps(reply) + "\n")
        file.flush()


@pytest.fixture
def qemu(tmp_path: Path) -> Iterator[Qemu]:
    one = Qemu(tmp_path)
    yield one
    one.server.close()


def test_intervals_are_recorded_and_the_trace_is_off_between_them(qemu: Qemu, tmp_path: Path) -> None:
    collector = QemuVtd(str(qemu.path))
    assert collector.probe().available
    (tmp_path / "raw").mkdir()
    collector.start(tmp_path / "raw", 50_000_000)
    outcome = collector.stop()
    assert outcome.status == "ok", outcome.reason
    assert qemu.said[-1] == "log none"
    assert not (tmp_path / "dut.trace").exists()
    found = [each for each in collector.readings(outcome) if each.unit_path == "emulated"]
    assert found
    assert all(each.get("iotlb_hits") for each in found)


def test_it_does_not_start_without_the_machine(qemu: Qemu, tmp_path: Path) -> None:
    collector = QemuVtd(str(qemu.path))
    qemu.server.close()
    qemu.path.unlink()
    with pytest.raises(HostError, match="does not answer"):
        collector.start(tmp_path, 1_000_000)
