# SPDX-License-Identifier: BSD-3-Clause
"""Test how busy cycles are read from replies of DPDK's telemetry and of testpmd's prompt."""

import io
from pathlib import Path
from typing import Any, cast

import pytest

from pollscope.host.telemetry_socket import TelemetrySocket
from pollscope.testbeds import busy_report
from pollscope.testbeds.busy_report import Reader, busy_reader, busy_share, prompt_reader

ARGUMENTS = ["dpdk-testpmd", "{eal}", "--", "-i", "--auto-start", "--record-core-cycles"]
# testpmd of DPDK 22.11
STATISTICS = """testpmd> show fwd stats all\r

  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: 26394816       RX-dropped: 0             RX-total: 26394816
  ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++
"""
CYCLES = "\n  CPU cycles/packet=45.52 (total cycles={} / total io packets=26394816) at 2300 MHz Clock\n"


class Telemetry:
    """A telemetry socket; each request of a command takes its next reply, other commands have none."""

    def __init__(self, **replies: list[Any]) -> None:
        self._replies = {f"/{name.replace('__', '/')}": [*each] for name, each in replies.items()}

    def value(self, request: str) -> Any:
        replies = self._replies.get(request)
        return replies.pop(0) if replies else None


def reader(telemetry: Telemetry, prompt: Reader | None = None) -> Reader | None:
    return busy_reader(cast("TelemetrySocket", telemetry), (1, 2), prompt)


def test_lcore_usage_counts_the_lcores_of_the_dut() -> None:
    def usage(*busy: int, total: int) -> dict[str, list[int]]:
        return {"lcore_ids": [0, 1, 2], "busy_cycles": [*busy], "total_cycles": [total] * 3}

    read = reader(
        Telemetry(
            eal__lcore__usage=[usage(0, 0, 0, total=0), usage(9, 100, 0, total=500), usage(9, 500, 200, total=1500)]
        )
    )
    assert read is not None
    assert busy_share([read(), read()]) == 600 / 2000


def test_lcore_usage_of_other_lcores_is_none() -> None:
    assert reader(Telemetry(eal__lcore__usage=[{"lcore_ids": [7], "busy_cycles": [1], "total_cycles": [2]}])) is None


def test_l3fwd_power_is_averaged_over_the_readings() -> None:
    read = reader(Telemetry(l3fwd_power__stats=[{"busy_percent": percent} for percent in (90, 80, 10, 20, 60)]))
    assert read is not None
    assert busy_share([read() for _ in range(4)]) == pytest.approx(0.3)  # of 10, 20, 60: intervals end at a reading


class Prompt(io.BytesIO):
    """The input of a program that writes its next answer into a log."""

    def __init__(self, log: Path, *answers: str) -> None:
        super().__init__()
        self._log, self._answers = log, [*answers]
        log.write_text("testpmd> ")

    def flush(self) -> None:
        with self._log.open("a") as log:
            log.write(self._answers.pop(0))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_testpmd_reports_its_cycles_at_the_prompt(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", iter(range(100)).__next__)
    answers = [STATISTICS + cycles + "testpmd> " for cycles in ("", "", CYCLES.format(3_000_000_000))]
    commands = Prompt(log, *answers)
    read = reader(Telemetry(), prompt_reader(ARGUMENTS, commands, log, 1e9, 2))
    assert read is not None
    first, last = read(), read()
    assert first is not None and first.busy == 0
    assert last is not None and last.busy == 3e9
    assert last.total - first.total == 4 * 2 * 1e9  # four looks at the clock per reading, two lcores
    assert commands.getvalue() == b"show fwd stats all\n" * 3


def test_half_an_answer_is_none(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy_report, "_ANSWER_LIMIT_S", 0.02)
    read = prompt_reader(ARGUMENTS, Prompt(log, STATISTICS), log, 1e9, 1)
    assert read is not None and read() is None


@pytest.mark.parametrize("missing", ["-i", "--record-core-cycles"])
def test_no_line_is_written_to_a_program_that_it_would_end(missing: str, log: Path) -> None:
    arguments = [each for each in ARGUMENTS if each != missing]
    assert prompt_reader(arguments, Prompt(log), log, 1e9, 1) is None


def test_a_share_needs_two_readings_and_time() -> None:
    one = busy_report.BusyCycles(1, 2)
    assert busy_share([None, one]) is busy_share([one, None]) is busy_share([one, one]) is None
