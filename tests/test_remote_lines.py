# SPDX-License-Identifier: BSD-3-Clause
"""Check the lines between an agent and a runner that falls silent."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from ssh_host import agent_program

from pollscope.base.errors import HostError
from pollscope.node.client import NodeClient, NodeLost
from pollscope.run.agent import Agent, serve
from pollscope.run.remote_lines import Lapsed, RemoteLines

# Refuses every request, so also the one that sets the heartbeat timeout.
REFUSES = """
import json, sys
print(json.dumps({"event": "hello", "protocol": 3}), flush=True)
for line in filter(str.strip, sys.stdin):
    print(json.dumps({"id": json.loads(line)["id"], "ok": False, "error": "no such request"}), flush=True)
"""


class Pipes:
    """Both pipes of an agent."""

    def __init__(self) -> None:
        (requests, self.ask), (self.answers, replies) = os.pipe(), os.pipe()
        self.lines, self._all = RemoteLines(requests, replies), [requests, self.ask, self.answers, replies]

    def close(self) -> None:
        for descriptor in self._all:
            os.close(descriptor)


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = Pipes()
    yield made
    made.close()


def test_lines_come_whole_and_empty_ones_are_skipped(pipes: Pipes) -> None:
    lines = iter(pipes.lines)
    os.write(pipes.ask, b'\n{"a"')
    os.write(pipes.ask, b": 1}\n\n \nb\n")
    assert next(lines) == '{"a": 1}'
    assert next(lines) == "b"


def test_a_silent_runner_counts_as_gone(pipes: Pipes) -> None:
    pipes.lines.heartbeat_timeout_s = 0.05
    with pytest.raises(Lapsed, match=r"silent for 0.05 s"):
        next(iter(pipes.lines))


def test_an_agents_last_line_may_find_no_reader(pipes: Pipes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its standard error is a channel to the same silent runner: it has ended by then."""
    order: list[str] = []
    monkeypatch.setattr(Agent, "__exit__", lambda *_: order.append("restored"))
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=order.append, flush=lambda: None))
    monkeypatch.setattr("pollscope.run.agent.folder_on_disk", lambda: tmp_path)
    pipes.lines.heartbeat_timeout_s = 0.05
    serve(pipes.lines)
    assert order[0] == "restored"
    assert "silent for 0.05 s" in order[1]


def test_a_runner_that_reads_nothing_counts_as_gone(pipes: Pipes) -> None:
    pipes.lines.heartbeat_timeout_s = 0.05
    with pytest.raises(Lapsed):
        pipes.lines.say("x" * (1 << 22))


def test_a_long_line_arrives_whole(pipes: Pipes) -> None:
    pipes.lines.say("x" * 50_000)
    assert os.read(pipes.answers, 60_000) == b"x" * 50_000 + b"\n"


@contextmanager
def agent(folder: Path, heartbeat_timeout_s: float | None = None) -> Iterator[NodeClient]:
    program = agent_program(folder / "pollscope", folder / "state")
    client = NodeClient([str(program), "agent"], folder / "log", "the agent", heartbeat_timeout_s)
    try:
        client.wait_hello()
        yield client
    finally:
        client.close()


def test_an_agent_ends_and_says_why(tmp_path: Path) -> None:
    with agent(tmp_path) as client:
        client.request("heartbeat_timeout", 60, silent_s=1)
        deadline = time.monotonic() + 60
        while client.alive:
            assert time.monotonic() < deadline, "it does not end"
            time.sleep(0.05)
    said = (tmp_path / "log").read_text()
    assert said == "pollscope agent: the runner was silent for 1 s: what it set is restored\n"


@pytest.mark.parametrize("silent_s", [0, -1, "long"])
def test_an_invalid_heartbeat_timeout_is_refused(tmp_path: Path, silent_s: object) -> None:
    with agent(tmp_path) as client:
        assert client.request("heartbeat_timeout", 60, silent_s=silent_s)["failed"]["what"]
        assert client.request("clock", 60)["t_ns"] > 0


def test_an_idle_client_keeps_the_connection_alive(tmp_path: Path) -> None:
    with agent(tmp_path, heartbeat_timeout_s=2) as client:
        with pytest.raises(NodeLost, match="no event 'nothing' in time"):
            client.wait_event(("nothing",), 5)
        assert client.request("clock", 60)["t_ns"] > 0


def test_a_program_without_heartbeat_timeout_is_not_used(tmp_path: Path) -> None:
    client = NodeClient([sys.executable, "-c", REFUSES], tmp_path / "log", heartbeat_timeout_s=20)
    with pytest.raises(HostError, match="the node takes no heartbeat timeout") as refused:
        client.wait_hello()
    assert refused.value.remedy == "pollscope play provision"
    assert not client.alive
