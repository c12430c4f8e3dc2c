# SPDX-License-Identifier: BSD-3-Clause
"""Check what an lcore of a node reports about its cycles, by accounting mode (docs/internals/node-protocol.md)."""

from typing import Any

import pytest

from pollscope.metrics.accounting import Classes, NoClasses, classes

MODES = ("none", "count", "sampled", "full")
BLOCKS, PRODUCTS, QUIET_PRODUCTS = 16, 28, 6
TIMED = ("receive_cycles", "process_cycles", "transmit_cycles")


def is_absent(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"absent"} and bool(value["absent"])


def check_cycles(lcore: dict[str, Any], mode: str) -> Classes | NoClasses:
    """Check the classes, which add up to the window, or a reason why they are absent."""
    assert lcore["accounting"] == mode
    assert set(lcore["cycles"]) == {"total"}
    assert ("timed_intervals" in lcore) == (mode == "sampled")
    assert ("timed" in lcore) == (mode in ("sampled", "full"))
    if mode == "full":
        check_full(lcore)
    if mode != "sampled":
        assert classes(lcore) == NoClasses(f"accounting mode {mode} takes no timed intervals")
        return classes(lcore)
    check_timed_intervals(lcore)
    found = classes(lcore)
    if isinstance(found, NoClasses):
        assert found.reason
        return found
    assert found.loop >= lcore["event_cycles"] + lcore["interruptions"]["cycles"]
    assert found.instrumentation == pytest.approx(lcore["sampling_cycles"] + lcore["stamps"] * lcore["stamp_cycles"])
    whole = found.empty_poll.value + found.loop + found.instrumentation + found.packets.value
    assert whole == pytest.approx(lcore["cycles"]["total"], rel=1e-9)
    return found


def check_full(lcore: dict[str, Any]) -> None:
    assert lcore["timed"]["busy_polls"] <= lcore["polls"]["partial"] + lcore["polls"]["full"]
    assert lcore["stamps"] > 0 < lcore["stamp_cycles"]
    assert sum(lcore["timed"][part] for part in TIMED) < lcore["cycles"]["total"]


def check_timed_intervals(lcore: dict[str, Any]) -> None:
    """Check that no sum of timed intervals is negative or larger than the whole that it is a part of."""
    timed_intervals, busy_polls = lcore["timed_intervals"], lcore["polls"]["partial"] + lcore["polls"]["full"]
    assert [len(row) for row in timed_intervals["blocks"]] == [1 + PRODUCTS] * BLOCKS
    assert [len(row) for row in timed_intervals["quiet"]] == [1 + QUIET_PRODUCTS] * BLOCKS
    assert min(min(row) for row in timed_intervals["blocks"] + timed_intervals["quiet"]) >= 0
    assert all(
        quiet[0] <= block[0] and quiet[1] <= block[1] * (1 + 1e-9)
        for quiet, block in zip(timed_intervals["quiet"], timed_intervals["blocks"], strict=True)
    )
    assert timed_intervals["cycles"] + timed_intervals["left_out_cycles"] <= lcore["cycles"]["total"]
    assert 0 <= lcore["transitions"] <= busy_polls
    assert is_absent(lcore["timed"]) or 0 < lcore["timed"]["busy_polls"] <= busy_polls
    assert is_absent(lcore["empty_poll_cycles"]) or lcore["empty_poll_cycles"] > 0
