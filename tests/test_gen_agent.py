# SPDX-License-Identifier: BSD-3-Clause
"""Check the generator that is an agent (apps/gpu) at ports with feed=external: in a node, in specs, and in a run."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from accounted import check_conservation, check_lcores, is_absent
from dut_node import DUT_LCORE, DUT_RX, DUT_TX, GENERATOR_LCORE, Node, running_node, skip_without
from run_helpers import Cli, assert_complete

from pollscope.base.paths import data_folder
from pollscope.host.placement import Roles
from pollscope.node.client import NodeClient
from pollscope.spec import Overrides, load_file
from pollscope.spec.model import Parameters
from pollscope.store.results_table import current_table
from pollscope.testbeds.loopback import Lcores, LoopbackSession, Memory

EXTERNAL = ("net_crossover0,feed=external", "net_crossover1,feed=external")
LCORES = "0@0,1@0,2@1,3@1,4@1"
WINDOW_S = 0.1


def configuration(queues: int = 1, gen: dict[str, Any] | None = None, **dut: Any) -> dict[str, Any]:
    """Return a `configure` request without `cmd`: from the agent to the DUT and back to the agent."""
    mtu = {"mtu": dut.pop("mtu", 1500)}
    cores = len(dut.get("lcores", [DUT_LCORE]))
    # All frames in receive rings fit a transmit ring: other tests may keep the agent from its CPU.
    rings = {"rx_queues": queues, "rx_desc": max(64, 2048 >> (queues - 1).bit_length())}
    ports = [{"name": DUT_RX, **rings, **mtu}, {"name": DUT_TX, "tx_queues": cores, "tx_desc": 4096, **mtu}]
    ends = {"generator": "agent", "lcores": [GENERATOR_LCORE], "target_port": DUT_RX, "rx_port": DUT_TX}
    polls = {"lcores": [DUT_LCORE], "rx_port": DUT_RX, "tx_port": DUT_TX, "workload": "io"}
    return {"ports": ports, "dut": polls | dut, "gen": ends | (gen or {})}


@pytest.fixture(scope="module")
def node(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    log = tmp_path_factory.mktemp("node") / "log"
    with running_node(build_dir, log, EXTERNAL, 1024, LCORES) as one:
        yield one


LARGE = {"frame": [{"bytes": 1518}]}
# Changes of the configuration, and the rate. One node takes them in turn, so its ports and rings stop and start.
CONSERVED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one-queue": ({}, {"pps": 20_000}),
    "faster": ({}, {"pps": 400_000}),
    "eight-queues": ({"queues": 8}, {"pps": 200_000}),
    "hundred-queues": ({"queues": 100}, {"pps": 20_000}),
    "one-of-eight": ({"queues": 8, "gen": {"shape": "SQ"}}, {"pps": 100_000}),
    "few-flows": ({"queues": 3, "gen": {"flows": 3}}, {"pps": 20_000}),
    "large": ({"queues": 2, "gen": LARGE}, {"pps": 20_000}),
    "jumbo": ({"mtu": 9000, "gen": {"frame": [{"bytes": 9000}]}}, {"pps": 5_000}),
    "poisson": ({"queues": 4, "gen": {"arrivals": "poisson"}}, {"pps": 100_000}),
    "bursts": ({"queues": 4, "gen": {"arrivals": "bursts", "burst_packets": 16}}, {"pps": 100_000}),
    "on-off": ({"gen": {"arrivals": "on-off"}}, {"pps": 100_000}),
    "line-share": ({}, {"line_share": 0.001}),
    "routed": ({"queues": 2, "workload": "l3fwd-lpm", "accounting": "full"}, {"pps": 50_000}),
    "tunnel": ({"queues": 2, "workload": "encap", "encapsulation": "gre-ipv6"}, {"pps": 50_000}),
    "inner": ({"queues": 2, "workload": "encap", "encapsulation": "ipip"}, {"pps": 50_000}),
    "two-cores": ({"queues": 4, "lcores": [2, 3]}, {"pps": 50_000}),
    "corec": ({"organisation": "corec", "lcores": [2, 3]}, {"pps": 50_000}),
    "locked": ({"queues": 2, "organisation": "locked", "lcores": [2, 3]}, {"pps": 50_000}),
    "scale-up": ({"queues": 2, "organisation": "scale-up", "lcores": [2], "dispatchers": [3]}, {"pps": 20_000}),
    "sleep-ramp": ({"notification": "sleep-ramp"}, {"pps": 20_000}),
    "dropped": ({"queues": 2, "workload": "drop"}, {"pps": 50_000}),
    "saturated": ({}, {"saturate": True}),
    "saturated-eight": ({"queues": 8}, {"saturate": True}),
}
SHARED = ("corec", "locked", "scale-up")
ABSENT = ("window", "extent", "distance", "degree", "displaced", "flows")
LINE_PPS = 100e9 / 8 / 84  # of net_crossover, frames of 64 B


def window_s(result: dict[str, Any]) -> float:
    """Return the length of a trial's window by its schedule, in seconds."""
    window: dict[str, int] = result["window"]
    return (window["end_tsc"] - window["start_tsc"]) / window["tsc_hz"]


@pytest.mark.parametrize("name", CONSERVED)
def test_every_frame_comes_back_once_or_is_counted(node: Node, name: str) -> None:
    asked, rate = CONSERVED[name]
    skip_without(node.ask("configure", **configuration(**asked)))
    result = node.busy_trial(rate=rate)
    check_conservation(result, in_order=name not in SHARED, drops="all" if name == "dropped" else "none")
    check_lcores(result["dut"]["lcores"], asked.get("accounting", "sampled"))
    (sender,) = result["gen"]["lcores"]
    assert sender["sent"] > 0
    if "pps" in rate and "arrivals" not in asked.get("gen", {}):
        assert sender["intended"] == pytest.approx(rate["pps"] * window_s(result), abs=2)
    assert sender["sequence"]["torn"] == 0
    assert all(is_absent(sender["sequence"][name]) for name in ABSENT)
    sizes = sender["histogram"]["burst"]["values"]
    assert sum(size * count for size, count in sizes) == sender["sent"]
    frame_bytes = asked.get("gen", {}).get("frame", [{"bytes": 64}])[0]["bytes"] - 4
    assert sender["tx_bytes"] == sender["sent"] * frame_bytes
    if asked.get("gen", {}).get("shape") == "SQ":
        assert sum(count > 0 for count in result["ports"][DUT_RX]["rx_queue_packets"]) == 1
    elif asked.get("queues", 1) <= 8:
        assert all(count > 0 for count in result["ports"][DUT_RX]["rx_queue_packets"])


def test_a_trial_that_is_stopped_accounts_for_its_slots(node: Node) -> None:
    node.get("configure", **configuration())
    begin = time.monotonic()
    node.get("start", trial="long", rate={"pps": 100_000}, warmup_ns=0, window_ns=20 * 10**9)
    assert node.get("read")["state"] == "running"
    time.sleep(0.2)
    node.get("stop")
    elapsed_s = time.monotonic() - begin
    assert node.line() == {"event": "done", "trial": "long"}
    result = node.get("read")
    (sender,) = result["gen"]["lcores"]
    assert sender["sent"] > 0
    assert 5_000 < sender["intended"] <= 100_000 * elapsed_s + 2
    assert sender["total"]["rx_packets"] + result["ports"][DUT_RX]["stats"]["imissed"] == sender["total"]["sent"]
    check_conservation(node.busy_trial(rate={"pps": 20_000}), in_order=True)


@pytest.mark.measure
def test_a_gap_across_the_start_of_the_window_counts_for_it(node: Node) -> None:
    node.get("configure", **configuration())
    node.get("start", trial="gap", rate={"pps": 10_000}, warmup_ns=500 * 10**6, window_ns=800 * 10**6)
    time.sleep(0.1)
    node.process.send_signal(signal.SIGSTOP)
    time.sleep(0.8)
    node.process.send_signal(signal.SIGCONT)
    assert node.line() == {"event": "done", "trial": "gap"}
    (sender,) = node.get("read")["gen"]["lcores"]
    gaps, unsent = sender["host_gaps"], sender["unsent"]
    assert unsent > 100
    assert gaps["over_1us"] >= gaps["over_10us"] >= gaps["over_100us"] > 0
    assert gaps["in_over_100us_ns"] >= (unsent - 2) * 100_000
    assert 0.03e9 < gaps["longest_ns"] <= gaps["in_over_100us_ns"]


def test_counts_that_are_read_during_a_trial_only_grow(node: Node) -> None:
    node.get("configure", **configuration())
    node.get("start", trial="live", rate={"pps": 500_000}, warmup_ns=50 * 10**6, window_ns=50 * 10**6)
    last = dict.fromkeys(("intended", "sent", "unsent", "tx_bytes", "rx_packets", "rx_bytes"), 0)
    reads, line = 0, node.ask("read")
    while "event" not in line:
        (sender,) = line["gen"]["lcores"]
        assert all(sender[name] >= before for name, before in last.items()), (last, sender)
        last, reads, line = {name: sender[name] for name in last}, reads + 1, node.ask("read")
    assert reads > 1 and node.line()["state"] == "done"


def test_silence_sends_nothing(node: Node) -> None:
    node.get("configure", **configuration(queues=4))
    (sender,) = node.trial(rate={"pps": 0})["gen"]["lcores"]
    assert sender["intended"] == sender["total"]["sent"] == sender["rx_packets"] == 0


def test_an_agent_that_does_not_look_empties_the_rings(node: Node) -> None:
    node.get("configure", **configuration(queues=2, gen={"rx_port": None, "reads_port": DUT_TX}))
    result = node.busy_trial(rate={"pps": 100_000})
    (sender,), stats = result["gen"]["lcores"], {name: port["stats"] for name, port in result["ports"].items()}
    assert "sequence" not in sender and "latency_ns" not in sender
    assert stats[DUT_RX]["ipackets"] + stats[DUT_RX]["imissed"] == sender["total"]["sent"]
    (worker,) = result["dut"]["lcores"]
    assert stats[DUT_TX]["opackets"] == stats[DUT_RX]["ipackets"]
    assert worker["tx_dropped"] == 0


def test_a_saturating_agent_has_no_schedule(node: Node) -> None:
    node.get("configure", **configuration(queues=4))
    result = node.busy_trial(rate={"saturate": True})
    (sender,) = result["gen"]["lcores"]
    assert sender["unsent"] == 0 and result["ports"][DUT_RX]["stats"]["imissed"] > 0
    assert 0 < sender["sent"] <= LINE_PPS * sender["duration_tsc"] / result["window"]["tsc_hz"] + 1
    assert is_absent(sender["lateness_ns"]) and is_absent(sender["interdeparture_ns"])
    assert sender["shape"]["hot"] == [0, 1, 2, 3] and sender["shape"]["hot_sent"] == sender["sent"]
    assert sender["shape"]["queue_polls"] > 0


@pytest.mark.measure
@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_the_rate_and_the_latency_of_each_frame_are_kept(build_dir: Path, tmp_path: Path, arrivals: str) -> None:
    with running_node(build_dir, tmp_path / "log", EXTERNAL, 512, "0@0,1@0,2@1") as one:
        one.get("configure", **configuration(queues=4, gen={"arrivals": arrivals, "seed": 3}))
        (sender,) = one.trial(WINDOW_S, rate={"pps": 1e6})["gen"]["lcores"]
    expected = 1e6 * WINDOW_S
    assert sender["intended"] == pytest.approx(expected, abs=1 if arrivals == "constant" else 5 * expected**0.5)
    assert sender["lateness_ns"]["total"] == sender["sent"] == sender["interdeparture_ns"]["total"] + 1
    assert sender["lateness_ns"]["max"] <= 100_000
    from_intended, from_sent = sender["latency_ns"]["from_intended"], sender["latency_ns"]["from_sent"]
    assert from_intended["total"] == from_sent["total"] <= sender["sent"]
    if not sender["sequence"]["lost"]:
        assert from_sent["total"] == sender["sent"]
        total_ns = from_sent["sum"] + sender["lateness_ns"]["sum"]
        assert from_intended["sum"] == pytest.approx(total_ns, abs=2 * sender["sent"])
    assert 10 < from_sent["min"] < 5_000


@pytest.mark.measure
def test_the_limit_of_lateness_is_kept(build_dir: Path, tmp_path: Path) -> None:
    with running_node(build_dir, tmp_path / "log", EXTERNAL, 512, "0@0,1@0,2@1") as one:
        one.get("configure", **configuration(gen={"late_max_ns": 2_000}))
        (sender,) = one.trial(WINDOW_S, rate={"pps": 2e6})["gen"]["lcores"]
    assert sender["lateness_ns"]["max"] <= 2_000
    assert max(size for size, _ in sender["histogram"]["burst"]["values"]) <= 5
    assert sender["intended"] == pytest.approx(2e6 * WINDOW_S, abs=1)


# Changes of "gen" that are refused, `where` of the refusal, and words of its text.
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"lcores": [1, 3]}, "gen.lcores", "one lcore"),
    ({"tx_port": DUT_TX}, "gen.tx_port", "leave it out"),
    ({"target_port": None}, "gen.target_port", "is required"),
    ({"trace": "day.pcap"}, "gen.trace", "use generator core"),
    ({"frame": [{"bytes": 64}, {"bytes": 128}]}, "gen.frame", "one size"),
    ({"frame": [{"bytes": 1519}]}, "gen.frame", "MTU"),
    ({"shape": "PC"}, "gen.shape", "FB and SQ"),
    ({"sleep_ns": 1000}, "gen.sleep_ns", "never sleeps"),
    ({"nic_stamps_ns": 10**6}, "gen.nic_stamps_ns", "no PTP frames"),
    ({"departures": 5}, "gen.departures", "none"),
    ({"reads_port": DUT_RX}, "gen.reads_port", "leave it out"),
    ({"rx_port": "net_crossover9_a"}, "gen.rx_port", "no port has the name"),
    ({"generator": "core", "tx_port": DUT_TX, "reads_port": DUT_TX}, "gen.reads_port", "generator agent"),
    ({"generator": "gpu"}, "gen.generator", "core, agent"),
]


@pytest.mark.parametrize(("changes", "where", "words"), REFUSED, ids=lambda each: each if isinstance(each, str) else "")
def test_what_an_agent_cannot_do_is_refused(node: Node, changes: dict[str, Any], where: str, words: str) -> None:
    asked = configuration(queues=2)
    asked["gen"] |= changes
    reply = node.ask("configure", **asked)
    assert (reply["ok"], reply["where"]) == (False, where), reply
    assert words in reply["error"] and "\n" not in reply["error"]


def test_a_pattern_of_too_many_packets_is_refused(node: Node) -> None:
    node.get("configure", **configuration(gen={"arrivals": "on-off", "on_ns": 10**7, "off_ns": 10**7}))
    reply = node.ask("start", trial="t", rate={"pps": 1e7}, window_ns=10**7)
    assert (reply["ok"], reply["where"]) == (False, "gen.arrivals")
    assert "a period has 200000 packets; an agent lists at most 65536 (use generator core)" in reply["error"]
    check_conservation(node.busy_trial(rate={"pps": 20_000}), in_order=True)


def test_a_port_with_another_feed_has_no_agent(build_dir: Path, tmp_path: Path) -> None:
    with running_node(build_dir, tmp_path / "log", ("net_crossover0", EXTERNAL[1]), 512) as one:
        reply = one.ask("configure", **configuration())
    assert (reply["ok"], reply["where"]) == (False, "gen.target_port")
    assert "feed=external, which net_crossover0_b is not" in reply["error"]


@pytest.mark.parametrize("row", ["S-F5", "S-F9", "S-F10a", "S-F10b", "S-F16"])
def test_rows_of_the_generator_core_are_specs_of_the_agent_too(row: str) -> None:
    (path,) = (data_folder("experiments") / "socc19").glob(f"{row.lower()}-*.yaml")
    assert load_file(path, Overrides(settings=("parameters.generator=agent",))).spec.parameters.generator == "agent"


BOTH = """\
format: 1
name: both
row: S-F5
title: t
testbeds: [loopback, model]
parameters: {workload: io, load_pps: 200 kpps}
factors:
  generator: [core, agent]
  queues: [1, 4]
trial: {warmup: 10 ms, window: 50 ms, drain: 50 ms}
repeats: {count: 4}
noise: {extra_blocks: 0}
show: {x: queues, y: [tax_share_running, latency_p50_ns], by: generator}
claims:
  - id: equal-load
    statement: Both generators offer the same load.
    metric: offered_pps
    predicate: {kind: ratio, factor: generator, from: core, to: agent, low: 0.9, high: 1.1}
"""


def test_a_session_with_an_agent_is_for_points_that_have_one() -> None:
    roles, places = Roles(0, (1,), (2,), ()), Lcores(0, {1: 1, 2: 2})
    receives = Parameters(generator="agent", saturate=True)
    one = LoopbackSession(cast(NodeClient, None), "", places, lambda _: roles, Memory(True, 0), receives)
    assert one.suits(receives.model_copy(update={"queues": 2}))
    for update in ({"workload": "tx"}, {"generator": "core"}, {"feed": "none"}):
        assert not one.suits(receives.model_copy(update=update)), update


@pytest.fixture
def cli(tmp_path: Path, build_dir: Path) -> Cli:
    (tmp_path / "nodes").touch()
    return Cli(tmp_path, build_dir / "pollscope-node")


@pytest.mark.measure
def test_a_run_compares_the_agent_with_the_core(cli: Cli) -> None:
    done = cli("run", cli.spec(BOTH))
    assert done.returncode == 0, done.stderr
    run = cli.only_run()
    assert_complete(run)
    table = current_table(run)
    for metric in ("tax_share_running", "offered_pps", "rx_pps", "latency_p50_ns", "loss_share", "poll_rate_hz"):
        found = table[["factor.generator", f"metric.{metric}"]].dropna()
        assert set(found["factor.generator"]) == {"core", "agent"}, metric
    (folder,) = cli.run_folders()
    claims = cli("claims", folder)
    assert claims.returncode == 0 and "equal-load" in claims.stdout, claims.stdout + claims.stderr
    explained = cli("explain", folder)
    assert explained.returncode == 0 and "agent" in explained.stdout, explained.stdout + explained.stderr


def test_other_testbeds_have_no_agent(cli: Cli) -> None:
    done = cli("plan", cli.spec(BOTH), "--testbed", "model-skylake", "--json")
    left_out = json.dumps(json.loads(done.stdout)["left_out"])
    assert "generator=agent plays the virtual NIC, which only loopback has; use generator core" in left_out
