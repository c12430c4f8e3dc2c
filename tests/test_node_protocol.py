# SPDX-License-Identifier: BSD-3-Clause
"""Check the conversation with pollscope-node: refusals, and that no input of a client ends the node."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from dut_node import DUT_LCORE, DUT_RX, DUT_TX, LIMIT_S, Node, configuration, running_node
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pollscope.node.build import queues_per_port


def test_hello_describes_process_and_ports(node: Node, build_dir: Path) -> None:
    hello = node.hello
    assert hello["event"] == "hello"
    assert hello["protocol"] == 3
    assert hello["pid"] == node.process.pid
    assert hello["hugepages"] is False
    assert hello["tsc_hz"] > 10**8
    assert [(one["lcore"], one["cpu"]) for one in hello["lcores"]] == [(0, 0), (1, 0), (2, 1), (3, 1)]
    assert [port["name"] for port in hello["ports"]] == [f"net_crossover{i}_{end}" for i in (0, 1) for end in "ab"]
    assert {port["driver"] for port in hello["ports"]} == {"net_crossover"}
    assert {port["max_rx_queues"] for port in hello["ports"]} == {queues_per_port(build_dir / "pollscope-node")}


def test_a_missing_value_in_hello_has_a_reason(node: Node) -> None:
    for port in node.hello["ports"]:
        assert (port["link_bps"] is None) == (f"link_bps.{port['name']}" in node.hello["absent"])


def test_any_id_is_echoed(node: Node) -> None:
    for value in (7, "x", None, [1, {"a": None}], {"b": 2.5}):
        reply = node.ask("read", id=value)
        assert "id" in reply
        assert reply["id"] == value


def forwarded(node: Node) -> dict[str, Any]:
    """Return the result of a trial in which the DUT sent packets; other tests can have the CPUs for a short window."""
    for _ in range(20):
        result = node.trial(window_s=0.05, rate={"pps": 50_000})
        if result["ports"][DUT_TX]["stats"]["opackets"]:
            return result
    raise AssertionError("no trial forwarded a packet")


# path of the changed value, new value, `where` of the error
REFUSED: list[tuple[tuple[Any, ...], Any, str]] = [
    (("surprise",), 1, "surprise"),
    (("ports",), {}, "ports"),
    (("ports",), [], "ports"),
    (("ports", 0, "name"), "net_nowhere", "ports[0].name"),
    (("ports", 0, "name"), DUT_RX, "ports[1].name"),
    (("ports", 0, "name"), 5, "ports[0].name"),
    (("ports", 1, "rx_queues"), 0, "ports[1].rx_queues"),
    (("ports", 1, "rx_queues"), 1025, "ports[1].rx_queues"),
    (("ports", 1, "rx_queues"), 1.5, "ports[1].rx_queues"),
    (("ports", 1, "rx_queues"), -1, "ports[1].rx_queues"),
    (("ports", 1, "rx_queues"), True, "ports[1].rx_queues"),
    (("ports", 1, "rx_desc"), 1, "ports[1].rx_desc"),
    (("ports", 1, "mtu"), 65535, "ports[1].mtu"),
    (("ports", 1, "rss"), {"key": "00"}, "ports[1].rss.key"),
    (("ports", 1, "rss"), {"key": "zz" * 40}, "ports[1].rss.key"),
    (("ports", 1, "rss"), {"reta": "random"}, "ports[1].rss.reta"),
    (("ports", 1, "speed"), 1, "ports[1].speed"),
    (("dut",), 3, "dut"),
    (("dut", "lcores"), [], "dut.lcores"),
    (("dut", "lcores"), [0], "dut.lcores"),
    (("dut", "lcores"), [99], "dut.lcores"),
    (("dut", "lcores"), [DUT_LCORE, DUT_LCORE], "dut.lcores"),
    (("dut", "lcores"), ["2"], "dut.lcores"),
    (("dut", "lcores"), [2, 3], "dut.lcores"),
    (("dut", "rx_port"), "net_nowhere", "dut.rx_port"),
    (("dut", "tx_port"), None, "dut.tx_port"),
    (("dut", "organisation"), "single", "dut.organisation"),
    (("dut", "notification"), "umwait", "dut.notification"),
    (("dut", "workload"), "mining", "dut.workload"),
    (("dut", "accounting"), "creative", "dut.accounting"),
    (("dut", "routes"), 0, "dut.routes"),
    (("dut", "burst"), 513, "dut.burst"),
    (("dut", "extra_cycles"), 1e3, "dut.extra_cycles"),
    (("dut", "sample_every"), 0, "dut.sample_every"),
    (("dut", "longest"), 257, "dut.longest"),
    (("dut", "rate"), 1, "dut.rate"),
    (("gen", "lcores"), [DUT_LCORE], "gen.lcores"),
]


def test_configure_refuses(node: Node) -> None:
    """A request that cannot be parsed or resolved leaves the earlier configuration and its last result unchanged."""
    node.get("configure", **configuration(queues=3))
    node.trial(window_s=0.01, rate={"pps": 50_000})
    before = node.get("read")
    for path, value, where in REFUSED:
        request = configuration()
        place: Any = request
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        reply = node.ask("configure", **request)
        assert (reply["ok"], reply["where"]) == (False, where), (path, value)
        assert reply["error"] and "\n" not in reply["error"]
        assert node.get("read") == before, (path, value)
    assert [lcore["queues"] for lcore in forwarded(node)["dut"]["lcores"]] == [3]


def test_a_configuration_that_cannot_be_applied_leaves_no_roles(node: Node) -> None:
    """The RSS key is checked once the port exists: with this key all frames would go to one queue."""
    node.get("configure", **configuration())
    request = configuration(queues=4)
    request["ports"][1]["rss"] = {"key": "00" * 40}
    reply = node.ask("configure", **request)
    assert (reply["ok"], reply["where"]) == (False, "gen.target_port")
    assert node.ask("start", trial="t", window_ns=10**6)["error"] == "nothing is configured"
    assert node.ask("read")["ok"] is False
    node.get("configure", **configuration())
    forwarded(node)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({}, "trial"),
        ({"trial": "t"}, "window_ns"),
        ({"trial": "", "window_ns": 10**6}, "trial"),
        ({"trial": "t", "window_ns": 10}, "window_ns"),
        ({"trial": "t", "window_ns": 10**6}, "rate"),
        ({"trial": "t", "window_ns": 10**6, "rate": {}}, "rate"),
        ({"trial": "t", "window_ns": 10**6, "rate": {"pps": 1, "saturate": True}}, "rate"),
        ({"trial": "t", "window_ns": 10**6, "rate": {"pps": -1}}, "rate.pps"),
        ({"trial": "t", "window_ns": 10**6, "rate": {"line_share": 1.5}}, "rate.line_share"),
        ({"trial": "t", "window_ns": 10**6, "rate": {"saturate": False}}, "rate.saturate"),
        ({"trial": "t", "window_ns": 10**6, "rate": {"pps": 1}, "seconds": 1}, "seconds"),
        ({"trial": "t", "window_ns": 10**6, "rate": {"pps": 0.01}}, "rate.pps"),
        ({"trial": "t", "window_ns": 10**6, "rate": {"pps": 1e9}}, "rate.pps"),
        ({"trial": "t", "window_ns": 10**6, "rate": {"speed": 5}}, "rate.speed"),
    ],
)
def test_start_refuses(node: Node, fields: dict[str, Any], where: str) -> None:
    node.get("configure", **configuration())
    reply = node.ask("start", **fields)
    assert (reply["ok"], reply["where"]) == (False, where), reply


def test_requests_without_their_precondition_are_refused(node: Node) -> None:
    node.get("configure", ports=[{"name": DUT_RX}])  # takes the roles away
    for command, fields in (
        ("start", {"trial": "t", "window_ns": 10**6}),
        ("calibrate", {}),
        ("read", {}),
        ("stop", {}),
    ):
        reply = node.ask(command, **fields)
        assert reply["ok"] is False, command
        assert reply["error"]


def test_commands_while_a_trial_runs(node: Node) -> None:
    node.get("configure", **configuration())
    node.get("start", trial="long", warmup_ns=0, window_ns=60 * 10**9, rate={"pps": 1000})
    for command in ("configure", "calibrate", "selftest", "noise", "start"):
        reply = node.ask(command)
        assert (reply["ok"], reply["where"]) == (False, "cmd")
    time.sleep(0.2)
    live = node.get("read")
    assert live["state"] == "running"
    assert live["dut"]["lcores"][0]["iterations"] > 0
    node.get("stop")
    assert node.line(5) == {"event": "done", "trial": "long"}
    result = node.get("read")
    assert result["state"] == "stopped"
    (lcore,) = result["dut"]["lcores"]
    assert lcore["window"]["end_tsc"] - lcore["window"]["start_tsc"] == lcore["cycles"]["total"]
    assert lcore["cycles"]["total"] < 10 * node.hello["tsc_hz"]
    assert node.ask("stop")["ok"] is False


@pytest.mark.parametrize(
    "line",
    [
        b" ",
        b"{",
        b"nonsense",
        b"[]",
        b"null",
        b'"cmd"',
        b'{"cmd":"read"}}',
        b'{"cmd":"read","cmd":"stop"}',
        b'{"cmd":"r\\u0000ead"}',
        b"\xff\xfe",
        b'{"cmd":"\xff"}',
        b'{"cmd":1e999}',
        b"[" * 5000,
        b'{"cmd":{"a":[1,2,{"b":' * 100,
        '{{"cmd":"{}"}}'.format("ä" * 300).encode(),
        '{{"{}":1,"cmd":"read"}}'.format("€" * 1000).encode(),
    ],
    ids=lambda line: repr(line[:24]),
)
def test_a_line_that_is_no_request_gets_an_error(node: Node, line: bytes) -> None:
    node.send(line + b"\n")
    reply = node.line()
    assert reply["ok"] is False
    assert reply["error"]


def test_a_line_beyond_the_limit_gets_one_error(node: Node) -> None:
    node.send(b'{"cmd":"read","id":"' + b"x" * (3 << 20) + b'"}\n{"cmd":"read","id":1}\n')
    assert "1 MiB" in node.line()["error"]
    assert node.line()["id"] == 1


KEYS = ["cmd", "id", "ports", "dut", "gen", "trial", "rate", "window_ns", "lcores", "name", "queues", "duration_ns"]
KEYS += ["organisation", "dispatchers", "ring_size", "rx_port", "hiccup", "service", "delay", "kind", "ns"]
KEYS += ["probability", "burst", "passes"]
VALUES = ["read", "configure", "start", "stop", "calibrate", "noise", "io", DUT_RX, "", "scale-up", "list", "fixed"]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(VALUES),
    st.text(max_size=40).filter(lambda text: "\x00" not in text),
)
OBJECTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.sampled_from(KEYS), st.text(max_size=8).filter(lambda text: "\x00" not in text)),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=20,
)


COMMANDS = ["read", "configure", "start", "stop", "calibrate", "noise", "nothing"]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cmd=st.sampled_from(COMMANDS), rest=OBJECTS)
def test_any_object_gets_one_reply(node: Node, cmd: str, rest: Any) -> None:
    """Meaningless requests are refused; none is mistaken for another, ends the node or stays without a reply."""
    fields = rest if isinstance(rest, dict) else {"dut": rest}
    node.send(json.dumps({**fields, "cmd": cmd, "id": "mark"}).encode() + b"\n")
    reply = node.line()
    assert reply["id"] == "mark"
    assert isinstance(reply["ok"], bool)
    if not reply["ok"]:
        assert reply["error"]
        assert "\n" not in reply["error"]
        assert isinstance(reply["where"], str)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(["dispatchers", "ring_size", "hiccup", "service", "frame", "encapsulation"]), value=OBJECTS)
def test_any_value_of_a_dut_key_gets_one_reply(node: Node, key: str, value: Any) -> None:
    """A refusal names that key, or one that excludes it, and the node stays usable."""
    reply = node.ask("configure", **configuration(**{key: value}))
    assert isinstance(reply["ok"], bool)
    if not reply["ok"]:
        assert reply["error"]
        assert reply["where"].startswith("dut"), reply


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=st.binary(min_size=1, max_size=200).filter(lambda line: b"\n" not in line))
def test_any_bytes_get_one_reply(node: Node, line: bytes) -> None:
    node.send(line + b'\n{"cmd":"nothing","id":"mark"}\n')
    assert node.line()["ok"] is False
    assert node.line()["id"] == "mark"


@pytest.mark.measure
def test_noise_counts_gaps(node: Node) -> None:
    reply = node.get("noise", lcores=[2], duration_ns=200_000_000)
    (entry,) = reply["noise"]
    assert entry["lcore"] == 2
    assert entry["cpu"] == 1
    assert entry["over_1us"] >= entry["over_10us"] >= entry["over_100us"]
    assert 0.19e9 < entry["duration_ns"] < 2e9
    assert node.ask("noise", lcores=[0])["where"] == "lcores"
    assert node.ask("noise", lcores=[2, 2])["where"] == "lcores"
    assert node.ask("noise")["where"] == "lcores"


def test_end_of_input_ends_the_node(build_dir: Path, tmp_path: Path) -> None:
    with running_node(build_dir, tmp_path / "log") as node:
        node.get("configure", **configuration())
        node.get("start", trial="t", window_ns=60 * 10**9, rate={"pps": 1000})
        assert node.process.stdin is not None
        node.process.stdin.close()
        assert node.process.wait(LIMIT_S) == 0


def test_quit_ends_the_node(build_dir: Path, tmp_path: Path) -> None:
    with running_node(build_dir, tmp_path / "log") as node:
        assert node.get("quit", id=3)["id"] == 3
        assert node.process.wait(LIMIT_S) == 0


def test_an_empty_line_is_a_sign_of_life_and_gets_no_reply(node: Node) -> None:
    node.send(b"\n\n")
    assert node.ask("nothing", id=5)["id"] == 5


@pytest.mark.parametrize("silent_s", [0, -1, 0.5, "1", None, 10**6])
def test_an_invalid_heartbeat_timeout_is_refused(node: Node, silent_s: object) -> None:
    assert node.ask("heartbeat_timeout", silent_s=silent_s)["where"] == "silent_s"
    assert node.ask("heartbeat_timeout")["where"] == "silent_s"
    assert node.ask("heartbeat_timeout", silent_s=1, seconds=1)["where"] == "seconds"


@pytest.mark.measure  # signs of life have to come in time
def test_a_silent_client_ends_the_node_in_mid_trial(build_dir: Path, tmp_path: Path) -> None:
    """Its input stays open, like that of an SSH connection whose packets are dropped."""
    with running_node(build_dir, tmp_path / "log") as node:
        node.get("configure", **configuration())
        node.get("heartbeat_timeout", silent_s=1)
        node.get("start", trial="t", window_ns=600 * 10**9, rate={"pps": 1000})
        for _ in range(8):
            time.sleep(0.2)
            node.send(b"\n")
        assert node.get("read")["state"] == "running", "signs of life keep it"
        assert node.process.wait(LIMIT_S) == 0
    assert "the client was silent for 1 s" in (tmp_path / "log").read_text()


def test_a_client_that_reads_nothing_ends_the_node(build_dir: Path, tmp_path: Path) -> None:
    """The node waits as long as the heartbeat timeout for room in the pipe."""
    with running_node(build_dir, tmp_path / "log") as node:
        node.get("heartbeat_timeout", silent_s=1)
        node.send(b'{"cmd":"links"}\n' * 10_000)
        assert node.process.wait(LIMIT_S) == 0
    assert "the client was silent for 1 s" in (tmp_path / "log").read_text()


def test_half_a_request_is_not_executed(build_dir: Path, tmp_path: Path) -> None:
    with running_node(build_dir, tmp_path / "log") as node:
        node.send(b'{"cmd":"read"}\n{"cmd":"read"')
        assert node.line()["ok"] is False
        assert node.process.stdin is not None
        node.process.stdin.close()
        assert node.process.wait(LIMIT_S) == 0
        assert node.process.stdout is not None
        assert node.process.stdout.read() == b""


STARTER = """
import subprocess, sys, os
node = subprocess.Popen(sys.argv[2:], stdin=int(sys.argv[1]), stdout=subprocess.PIPE, pass_fds=[int(sys.argv[1])])
node.stdout.readline()
print(node.pid, flush=True)
os._exit(0)
"""


def test_death_of_the_parent_ends_the_node(build_dir: Path, tmp_path: Path) -> None:
    """Also if another process still holds the other end of its input."""
    reader, writer = os.pipe()
    command = [str(build_dir / "pollscope-node"), "--lcores", "0@0", "--no-pci", "--no-huge", "-m", "64", "--no-shconf"]
    with (tmp_path / "log").open("wb") as log:
        starter = subprocess.run(
            [sys.executable, "-c", STARTER, str(reader), *command],
            pass_fds=[reader],
            stdout=subprocess.PIPE,
            stderr=log,
            check=True,
            timeout=LIMIT_S,
        )
    os.close(reader)
    status = Path(f"/proc/{int(starter.stdout)}/stat")
    deadline = time.monotonic() + 10
    while status.exists() and status.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "the node outlives its parent"
        time.sleep(0.05)
    os.close(writer)


def test_bad_arguments(build_dir: Path) -> None:
    eal = ["--no-pci", "--no-huge", "-m", "64", "--no-shconf", "--lcores", "0@0"]
    for arguments, expected in (([*eal, "--", "--self-tset"], 2), ([*eal, "--no-such-option"], 3)):
        done = subprocess.run(
            [build_dir / "pollscope-node", *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert done.returncode == expected
        assert done.stdout == ""
        assert "pollscope-node:" in done.stderr


def test_a_missing_driver_of_buffers_is_named(build_dir: Path) -> None:
    arguments = ["--no-pci", "--no-huge", "-m", "64", "--no-shconf", "--lcores", "0@0", "--mbuf-pool-ops-name", "none"]
    done = subprocess.run(
        [build_dir / "pollscope-node", *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "no driver for packet buffers of the kind none is loaded (DPDK's is librte_mempool_ring.so" in done.stderr


def test_a_node_removes_the_runtime_folder_of_eal(build_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "dpdk" / "quits"
    command = [str(build_dir / "pollscope-node"), "--lcores", "0@0", "--no-pci", "--no-huge", "-m", "64", "--no-shconf"]
    done = subprocess.run(
        [*command, "--file-prefix", folder.name],
        input='{"cmd": "quit"}\n',
        capture_output=True,
        text=True,
        env=os.environ | {"RUNTIME_DIRECTORY": str(tmp_path)},
        timeout=LIMIT_S,
        check=True,
    )
    assert '"hello"' in done.stdout
    assert folder.parent.is_dir(), "EAL made its folders somewhere else"
    assert not folder.exists()
