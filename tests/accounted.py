# SPDX-License-Identifier: BSD-3-Clause
"""Check what an lcore of a node reports about its cycles, by accounting mode (docs/internals/node-protocol.md)."""

from collections import Counter
from typing import Any

import pytest
from dut_node import DUT_RX, DUT_TX

from pollscope.metrics.accounting import Classes, NoClasses, classes

MODES = ("none", "count", "sampled", "full")
BLOCKS, PRODUCTS, QUIET_PRODUCTS = 16, 28, 6
TIMED = ("receive_cycles", "process_cycles", "transmit_cycles")


def check_conservation(result: dict[str, Any], in_order: bool, drops: str = "none") -> None:
    """Check that every packet passes once and unchanged, or is counted where it was dropped.

    Args:
        result: of a trial between generator and DUT.
        in_order: whether each flow keeps its order.
        drops: part of the packets that the workload drops: "none", "some" or "all".
    """
    generators, ports, lcores = result["gen"]["lcores"], result["ports"], result["dut"]["lcores"]
    stats = {name: port["stats"] for name, port in ports.items()}
    total, sequence = Counter[str](), Counter[str]()
    for each in generators:
        total.update(each["total"])
        sequence.update({name: each["sequence"][name] for name in ("lost", "duplicated", "reordered")})
    assert total["sent"] > 0  # how many, a busy host decides
    assert not any(each["no_mbuf"] for each in generators)
    assert stats[DUT_RX]["ipackets"] + stats[DUT_RX]["imissed"] == total["sent"]
    assert sum(ports[DUT_RX]["rx_queue_packets"]) == stats[DUT_RX]["ipackets"]
    workers = [lcore for lcore in lcores if lcore["role"] == "worker"]
    received = sum(lcore["rx_packets"] for lcore in workers)
    dropped = sum(lcore["workload_dropped"] for lcore in workers)
    assert received <= stats[DUT_RX]["ipackets"]
    assert (sequence["duplicated"], sequence["reordered"] if in_order else 0) == (0, 0)
    if drops == "all":
        assert dropped == received and total["rx_packets"] == stats[DUT_TX]["opackets"] == 0
    elif drops == "some":
        assert 0 < dropped <= received and stats[DUT_TX]["opackets"] < stats[DUT_RX]["ipackets"]
    else:
        missed = sum(port["imissed"] for port in stats.values()) + sum(lcore["tx_dropped"] for lcore in workers)
        assert total["rx_packets"] + missed == total["sent"]
        assert (sequence["lost"], dropped, sum(each["rx_foreign"] for each in generators)) == (missed, 0, 0)
        assert stats[DUT_TX]["opackets"] == stats[DUT_RX]["ipackets"]


def check_lcores(lcores: list[dict[str, Any]], mode: str) -> None:
    """Check that each lcore of a DUT accounts for its packets, polls and cycles, and that its series add up to them."""
    for lcore in lcores:
        handed = lcore["handed_packets"] + lcore["ring_full"] if lcore["role"] == "dispatcher" else 0
        assert ("handed_packets" in lcore) == (lcore["role"] == "dispatcher")
        sent = lcore["tx_packets"] + lcore["tx_dropped"] + lcore["workload_dropped"]
        assert lcore["rx_packets"] == handed + sent and 0 in (handed, sent)
        check_series(lcore)
        check_cycles(lcore, mode)
        if mode == "none":
            assert "polls" not in lcore
            continue
        polls = {name: count for name, count in lcore["polls"].items() if not is_absent(count)}
        busy_polls, whole = polls["partial"] + polls["full"], sum(polls.values())
        assert whole <= lcore["iterations"] * lcore["queues"]
        assert whole == lcore["iterations"] * lcore["queues"] or len(lcores) > 1 or "waiting" in lcore
        bursts = dict(lcore["histograms"]["burst"]["values"])
        assert sum(size * count for size, count in bursts.items()) == lcore["rx_packets"]
        assert sum(bursts.values()) == whole
        assert lcore["iterations"] - lcore["idle_iterations"] <= busy_polls
        times = "iteration_cycles" in lcore["histograms"]
        assert times or mode != "full"
        assert not times or mode != "count"


def check_series(lcore: dict[str, Any]) -> None:
    """Check that the parts of the window make up the window."""
    series = lcore["series"]
    sums = {name: sum(values) for name, values in series.items()}
    assert sums["rx_packets"] == lcore["rx_packets"] and sums["tx_packets"] == lcore["tx_packets"]
    assert sums["cycles"] == lcore["cycles"]["total"] == lcore["window"]["end_tsc"] - lcore["window"]["start_tsc"]
    assert sums["interrupted_cycles"] == lcore["interruptions"]["cycles"]
    assert sums["sweeps"] == lcore.get("iterations", sums["sweeps"])
    assert 1 <= len(series["cycles"]) <= 64 and len({len(values) for values in series.values()}) == 1


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
    assert found.waiting == lcore.get("waiting", {"cycles": 0})["cycles"]
    whole = found.empty_poll.value + found.loop + found.instrumentation + found.packets.value + found.waiting
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
