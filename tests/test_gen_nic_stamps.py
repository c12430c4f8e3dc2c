# SPDX-License-Identifier: BSD-3-Clause
"""Check latencies of sampled frames by the clock of the NIC: with one (apps/tests/nic_clock.c), and without."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import synthetic_run as synthetic
from gen_node import RECEIVES, SENDS, WINDOW_S, Generator, running_generator

from pollscope.metrics.derive import derive_trial

EVERY_NS = 1_000_000
PPS = 20_000
CLOCK_STEP_NS = 8


@contextmanager
def generator_with(build_dir: Path, folder: Path, clock: str) -> Iterator[Generator]:
    """Run a generator between the ends of a pair that act as NICs with such a clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(build_dir / "libtests-nic-clock.so"))
        patch.setenv("NIC_CLOCK", clock)
        with running_generator(build_dir, folder / "node.log") as one:
            yield one


def trial(generator: Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    generator.configure(nic_stamps_ns=EVERY_NS)
    lcore, ports = generator.trial({"pps": PPS})
    return lcore, ports


def test_a_sample_of_frames_is_stamped_by_the_nic(build_dir: Path, tmp_path: Path) -> None:
    with generator_with(build_dir, tmp_path, "one") as generator:
        lcore, ports = trial(generator)
    found = lcore["nic_stamps"]
    # A late iteration delays the next frame; no frame comes early.
    assert 0 < found["sent"] <= WINDOW_S * 1e9 / EVERY_NS + 1
    assert (found["back"], found["late"]) == (found["sent"], 0)
    assert found["back"] == found["latency_ns"]["total"] == found["software_ns"]["total"]
    assert (found["every_ns"], found["unstamped"], found["implausible"]) == (EVERY_NS, 0, 0)
    assert found["clock_step_ns"] == CLOCK_STEP_NS
    assert 0 <= found["clocks_apart_ns"] < 1_000_000
    assert found["longest_read_ns"] > 0
    # The NIC's latency lies within the generator's for the same frames; the sum over all is exact.
    assert 0 < found["latency_ns"]["sum"] <= found["software_ns"]["sum"]
    # No other counter contains them.
    assert lcore["rx_foreign"] == 0
    assert lcore["total"]["sent"] == lcore["total"]["rx_packets"]
    for name, counter in ((SENDS, "opackets"), (RECEIVES, "ipackets")):
        assert ports[name]["stats"][counter] == lcore["total"]["sent"] + found["sent"]


@pytest.mark.parametrize(
    ("clock", "reason"),
    [
        ("none", f"{SENDS} (driver net_crossover) gives no time stamps: Operation not supported"),
        ("two", f"{RECEIVES} (driver net_crossover) gives no time stamps: its clock and the sender's are "),
    ],
)
def test_missing_stamps_have_a_reason(build_dir: Path, tmp_path: Path, clock: str, reason: str) -> None:
    with generator_with(build_dir, tmp_path, clock) as generator:
        lcore, ports = trial(generator)
    assert lcore["nic_stamps"]["absent"].startswith(reason)
    assert ports[SENDS]["stats"]["opackets"] == lcore["total"]["sent"], "no frame is sent for them"


@pytest.mark.parametrize(("clock", "counter"), [("stale", "implausible"), ("silent", "unstamped")])
def test_useless_stamps_are_counted_and_left_out(build_dir: Path, tmp_path: Path, clock: str, counter: str) -> None:
    with generator_with(build_dir, tmp_path, clock) as generator:
        lcore, _ = trial(generator)
    found = lcore["nic_stamps"]
    assert found["back"] > 1
    assert found["latency_ns"]["total"] == 0
    assert found[counter] >= found["back"] - 1, "the first has none before it"


def test_a_real_driver_without_a_clock(build_dir: Path, tmp_path: Path) -> None:
    with running_generator(build_dir, tmp_path / "node.log") as generator:
        lcore, _ = trial(generator)
        assert lcore["nic_stamps"]["absent"].endswith("gives no time stamps: Operation not supported")
        generator.configure()
        assert "nic_stamps" not in generator.trial({"pps": PPS})[0]


def stamped(**changes: Any) -> dict[str, Any]:
    """Return a trial with 200 stamped frames: 1 us in cable and DUT, 2 us more for the generator."""
    record = synthetic.trial()
    stamps = {
        **dict.fromkeys(("sent", "back"), 200),
        **dict.fromkeys(("unstamped", "implausible"), 0),
        "clock_step_ns": 8,
        "clocks_apart_ns": 40,
        "latency_ns": synthetic.histogram([1000] * 190 + [2000] * 10, "ns"),
        "software_ns": synthetic.histogram([3000] * 190 + [4000] * 10, "ns"),
        **changes,
    }
    record["result"]["gen"]["lcores"][0]["nic_stamps"] = stamps
    return record | {"params": {"nic_timestamps": EVERY_NS}}


def test_metrics_of_what_the_nic_saw() -> None:
    metrics, _ = derive_trial(stamped())
    assert metrics["latency_nic_mean_ns"] == pytest.approx(1050)
    assert metrics["latency_nic_p50_ns"] == pytest.approx(1000, rel=2e-3)
    assert metrics["latency_nic_p99_ns"] == pytest.approx(2000, rel=2e-3)
    assert metrics["latency_nic_error_ns"] == 48
    assert metrics["latency_beyond_nic_ns"] == pytest.approx(2000)


NONE = synthetic.histogram([], "ns")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (synthetic.trial(), "the spec requests no frames that NICs stamp (parameter nic_timestamps)"),
        (stamped(back=0, latency_ns=NONE), "none of 200 frames for the NIC to stamp came back"),
        (
            stamped(unstamped=150, implausible=50, latency_ns=NONE),
            "of 200 frames that came back none has two plausible stamps (150 unstamped, 50 implausible)",
        ),
    ],
)
def test_missing_metrics_give_their_reason(record: dict[str, Any], reason: str) -> None:
    metrics, absences = derive_trial(record)
    for name in ("latency_nic_mean_ns", "latency_nic_error_ns", "latency_beyond_nic_ns"):
        assert name not in metrics
        assert absences[name] == reason
