# SPDX-License-Identifier: BSD-3-Clause
"""Check the client against a node that sends the wrong thing at the wrong time; the node is a few lines of Python."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pollscope.base.errors import HostError
from pollscope.node.client import NodeClient, NodeFailed, NodeLost

LIMIT_S = 20.0
# Answers every `start` and then writes the lines that the test wants.
NODE = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"id": request["id"], "ok": True}), flush=True)
    if request["cmd"] == "quit":
        break
    for said in sys.argv[1:]:
        print(said, flush=True)
"""
DONE = '{"event":"done","trial":"%s"}'


@contextmanager
def client_of(log: Path, *said: str, node: str = NODE, patience: int = 1) -> Iterator[NodeClient]:
    client = NodeClient([sys.executable, "-c", node, *said], log, patience=patience)
    try:
        yield client
    finally:
        client.end()


def test_the_end_of_a_lost_trial_is_not_that_of_the_next(tmp_path: Path) -> None:
    with client_of(tmp_path / "log", DONE % "t1") as client:
        client.request("start", LIMIT_S, trial="t2")
        with pytest.raises(NodeLost, match="no event 'done' in time"):
            client.wait_trial("t2", 0.5)


@pytest.mark.parametrize("stale", [DONE % "t1", '{"event":"failed","trial":"t1","error":"too late"}'])
def test_the_right_end_is_found_after_the_wrong_one(tmp_path: Path, stale: str) -> None:
    with client_of(tmp_path / "log", stale, DONE % "t2") as client:
        client.request("start", LIMIT_S, trial="t2")
        client.wait_trial("t2", LIMIT_S)


def test_a_trial_that_was_given_up(tmp_path: Path) -> None:
    with client_of(tmp_path / "log", '{"event":"failed","trial":"t","error":"no link"}') as client:
        client.request("start", LIMIT_S, trial="t")
        with pytest.raises(NodeFailed, match="the node gave the trial up: no link"):
            client.wait_trial("t", LIMIT_S)


def test_a_node_with_a_hung_lcore_is_lost(tmp_path: Path) -> None:
    """It would refuse every later request, so the runner has to start another node."""
    said = '{"event":"failed","trial":"t","error":"lcore 2 did not come back","hung":[2]}'
    with client_of(tmp_path / "log", said) as client:
        client.request("start", LIMIT_S, trial="t")
        with pytest.raises(NodeLost, match="lcore 2 did not come back"):
            client.wait_trial("t", LIMIT_S)


def test_the_reason_of_a_failed_start_is_its_own(tmp_path: Path) -> None:
    """An earlier start of the same run failed as well, for another reason."""
    log = tmp_path / "log"
    for reason in ("no hugepages", "no such device"):
        node = f"import sys; sys.exit('{reason}\\n\\nUsage: node')"
        with client_of(log, node=node) as client, pytest.raises(HostError) as caught:
            client.wait_hello(LIMIT_S)
        assert caught.value.remedy == reason


# Each answer and each end of a trial takes a second, as on an emulated machine on a busy host.
SLOW_NODE = """
import json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    time.sleep(1)
    print(json.dumps({"id": request["id"], "ok": True}), flush=True)
    if request["cmd"] == "quit":
        break
    time.sleep(1)
    print(json.dumps({"event": "done", "trial": request["trial"]}), flush=True)
"""


def test_patience_multiplies_the_limits_of_requests_and_trials(tmp_path: Path) -> None:
    with client_of(tmp_path / "log", node=SLOW_NODE) as client, pytest.raises(NodeLost, match="no reply to 'start'"):
        client.request("start", 0.2, trial="t")
    with client_of(tmp_path / "log", node=SLOW_NODE, patience=100) as client:
        client.request("start", 0.2, trial="t")
        client.wait_trial("t", 0.2)


# Sends its first argument, as often as its second says, before the reply to the first request.
FLOOD = """
import sys
import threading
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    sys.stdout.write(sys.argv[1])
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("text", "times", "reason"),
    [
        ("x" * 65536, 1 << 10, "sent a line of more than 32 MiB"),
        ('{"event":"more"}\n' * 1000, 1 << 10, "sent more than 32 MiB of unrequested messages"),
        ("[" * 100_000 + "\n", 1, "wrote something that is not JSON"),
    ],
)
def test_a_node_that_sends_without_bound_is_lost(tmp_path: Path, text: str, times: int, reason: str) -> None:
    with client_of(tmp_path / "log", text, str(times), node=FLOOD) as client, pytest.raises(NodeLost, match=reason):
        client.request("start", LIMIT_S)


def test_a_process_that_survives_sigkill_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No signal arrives, as during an uninterruptible system call."""
    monkeypatch.setattr("pollscope.node.client._TERMINATE_LIMIT_S", 0.1)
    monkeypatch.setattr("pollscope.node.client._KILL_LIMIT_S", 0.1, raising=False)
    with client_of(tmp_path / "log") as client:
        with monkeypatch.context() as patched:
            patched.setattr(client._process, "send_signal", lambda _number: None)
            ended = threading.Thread(target=client.end, daemon=True)
            ended.start()
            ended.join(5)
            alive = ended.is_alive()
        assert not alive, "the client still waits"
        assert "has not ended" in (tmp_path / "log").read_text()
