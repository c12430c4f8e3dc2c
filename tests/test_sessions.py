# SPDX-License-Identifier: BSD-3-Clause
"""Points that need different nodes alternate without a restart, as long as the memory suffices for all nodes."""

from pathlib import Path

import pytest

from pollscope.spec.model import Parameters
from pollscope.testbeds import make_testbed
from pollscope.testbeds.loopback import LoopbackTestbed


class Node:
    """Stands for a started node: it suits one packet size."""

    def __init__(self, frame: object, log: list[str], held_bytes: int = 0) -> None:
        self.frame, self.log, self.held_bytes = frame, log, held_bytes
        log.append(f"start {frame}")

    def suits(self, params: Parameters) -> bool:
        return params.frame == self.frame

    def close(self) -> None:
        self.log.append(f"end {self.frame}")

    end = close


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def testbed(log: list[str], monkeypatch: pytest.MonkeyPatch) -> LoopbackTestbed:
    found = make_testbed("loopback")
    assert isinstance(found, LoopbackTestbed)
    monkeypatch.setattr(found, "open", lambda params, _log: Node(params.frame, log))
    monkeypatch.setattr(found, "_log", Path("node.log"), raising=False)
    monkeypatch.setattr(found, "_hugepages_bytes", 1 << 40)
    return found


def use(testbed: LoopbackTestbed, *frames: int) -> None:
    for frame in frames:
        testbed._suitable_session(Parameters(frame=f"{frame} B"))


def test_alternating_points_keep_their_nodes(testbed: LoopbackTestbed, log: list[str]) -> None:
    use(testbed, 64, 128, 64, 128, 64)
    assert log == ["start 64", "start 128"]
    testbed.end()
    assert log[2:] == ["end 128", "end 64"]


def test_the_longest_unused_node_ends_first(
    testbed: LoopbackTestbed, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbed, "most_sessions", 2)
    use(testbed, 64, 128, 64, 256)
    assert log == ["start 64", "start 128", "end 128", "start 256"]


def test_without_room_in_memory_there_is_one_node(
    testbed: LoopbackTestbed, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbed, "make_room", lambda idle, _chosen, _params: len(idle))
    use(testbed, 64, 128, 64)
    assert log == ["start 64", "end 64", "start 128", "end 128", "start 64"]


def test_nodes_share_the_hugepages_that_were_free(testbed: LoopbackTestbed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node holds what its last point needed; without hugepages a node takes its memory at its start."""
    held = 300 << 20

    class Idle:
        held_bytes = held

    monkeypatch.setattr("pollscope.testbeds.loopback.LoopbackSession", Idle)
    idle = [Idle(), Idle(), Idle()]
    params = Parameters()
    for free, ended in ((0, 3), (held, 3), (3 * held, 1), (10 * held, 0)):
        monkeypatch.setattr(testbed, "_hugepages_bytes", free)
        assert testbed.make_room(idle, None, params) == ended  # type: ignore[arg-type]


def test_a_lost_node_ends_the_others(testbed: LoopbackTestbed, log: list[str]) -> None:
    """An idle node may have been lost for the same reason, and would cost a trial of its own."""
    use(testbed, 64, 128)
    testbed._end_sessions()
    use(testbed, 64)
    assert log == ["start 64", "start 128", "end 128", "end 64", "start 64"]
