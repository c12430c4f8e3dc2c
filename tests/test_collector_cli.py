# SPDX-License-Identifier: BSD-3-Clause
"""Test `pollscope collect`."""

import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest
from command_line import pollscope
from run_helpers import Cli

from pollscope.base.names import COLLECTORS
from pollscope.host.boot_note import remove_boot_note, write_boot_note
from pollscope.host.lock import HostLock

IIO = (
    "Socket,Name,Part,IB write,IB read,OB read,OB write,IOTLB Lookup,IOTLB Miss\n"
    "Socket0,IIO Stack 1 - PCIe1,Part0,3096502000,2,3,4,50,6\n"
)


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path / "state"))


def collect(*arguments: object) -> int:
    done = pollscope("collect", *map(str, arguments), cwd=Path())
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    return done.returncode


def test_without_a_name_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert collect() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(COLLECTORS)
    assert all(line.split()[1] in ("available", "absent") and len(line.split()) > 2 for line in lines)


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_samples_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str) -> None:
    out = tmp_path / f"samples{ending}"
    assert collect("kernel-load", "iommu", "--seconds", 0.3, "--interval", 0.1, "--out", out) == 0
    read: dict[str, Callable[[Path], pd.DataFrame]] = {
        ".csv": pd.read_csv,
        ".parquet": pd.read_parquet,
        ".jsonl": lambda path: pd.read_json(path, lines=True),
    }
    table = read[ending](out)
    assert set(table["source"]) == {"kernel-load", "iommu"}
    assert (table["metric"] == "steal_ticks").sum() >= 3
    printed = capsys.readouterr()
    assert "steal_ticks" in printed.out
    assert "kernel-load: ok" in printed.err


def test_ctrl_c_ends_it_early_and_loses_nothing(tmp_path: Path) -> None:
    cli, out, raw = Cli(tmp_path), tmp_path / "samples.csv", tmp_path / "raw/kernel-load.raw"
    words = "kernel-load", "--seconds", "3600", "--interval", "0.05", "--out", out, "--raw", raw.parent
    process = cli.start("collect", *words)
    deadline = time.monotonic() + 60
    while not (raw.exists() and raw.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "pollscope: interrupted"
    assert "steal_ticks" in printed and "steal_ticks" in out.read_text()


def test_a_host_that_measures_is_left_alone(tmp_path: Path) -> None:
    cli, out = Cli(tmp_path), tmp_path / "samples.csv"
    words = "kernel-load", "--seconds", "0.1", "--interval", "0.05", "--out", out
    with HostLock("run S-F5", tmp_path / "state/host.lock"):
        refused = cli("collect", *words)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (3, 1)
    assert "in use by pid" in refused.stderr and "(run S-F5, since" in refused.stderr
    write_boot_note(tmp_path / "state", "run I-IOMMU by ada@one")
    assert "run I-IOMMU by ada@one of 2" in cli("collect", *words).stderr
    assert not out.exists()
    remove_boot_note(tmp_path / "state")
    assert cli("collect", *words).returncode == 0


def test_counters_are_readable_without_access_to_the_hosts_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", "/proc/nowhere")
    assert collect("kernel-load", "--seconds", 0.1, "--interval", 0.05) == 0


def test_a_recorded_output_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = tmp_path / "iio.csv"
    recorded.write_text(IIO * 3, encoding="utf-8")
    assert collect("pcm-iio", "--replay", recorded, "--seconds", 0.5, "--interval", 0.1, "--raw", tmp_path / "raw") == 0
    assert "3,096,500,000 B/s" in capsys.readouterr().out
    assert (tmp_path / "raw" / "pcm-iio.raw").read_text(encoding="utf-8") == IIO * 3


def test_rubbish_is_reported_with_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = tmp_path / "iio.csv"
    recorded.write_text(IIO + "Socket0,IIO Stack 1 - PCIe1,Part0,1,2,3,4,5,6,7\n", encoding="utf-8")
    assert collect("pcm-iio", "--replay", recorded, "--seconds", 0.5, "--interval", 0.1) == 1
    assert "pcm-iio.raw:3: the row has 7 values, its header 6" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nonsense",), 2, "no collector 'nonsense'"),
        (("kernel-load", "--out", "samples.xls"), 2, "unknown ending"),
        (("kernel-load", "iommu", "--replay", "x"), 2, "--replay feeds one collector"),
        (("pcm-iio", "--replay", "/nonexistent"), 3, "no file /nonexistent"),
        (("kernel-load", "--seconds", "0"), 2, "seconds"),
    ],
)
def test_an_impossible_request_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: Sequence[str], code: int, message: str
) -> None:
    assert collect(*arguments) == code
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
