# SPDX-License-Identifier: BSD-3-Clause
"""Test faults where two features meet, each on nodes that play back a real record."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from played_hosts import PlayedHosts
from run_helpers import assert_complete

sys.path.append(str(Path(__file__).parent / "knobs"))
from knob_tree import Tree

SPEC = """\
format: 1
name: meet
row: S-F5
title: t
testbeds: [loopback, pair]
parameters: {generator_receives: false, load_pps: 0}
trial: {warmup: 0 ms, window: 5 ms, drain: 0 ms}
repeats: {count: 1}
"""
CORUNNER = "{corunner: matmul, feed: infinite, saturate: true, generator_receives: false}"
LOAD = "collectors:\n  - {name: kernel-load, interval: 10 ms}\n"


@pytest.fixture
def hosts(tmp_path: Path) -> PlayedHosts:
    return PlayedHosts(tmp_path)


def with_parameters(text: str) -> str:
    return SPEC.replace("{generator_receives: false, load_pps: 0}", text)


@pytest.mark.thorough
def test_the_window_of_collectors_opens_when_the_corunner_works(hosts: PlayedHosts) -> None:
    """A co-runner that fills its memory takes longer than a window."""
    text = with_parameters(CORUNNER).replace("window: 5 ms", "window: 50 ms") + LOAD
    (trial,) = hosts.ran(text).trials
    released = next(each for each in hosts.requests() if each["corunner"] and each["cmd"] == "start")
    node_started = next(each for each in hosts.requests() if not each["corunner"] and each["cmd"] == "start")
    opened = {phase["phase"]: phase["t_ns"] for phase in trial["phases"]}
    assert opened["warmup"] > released["t_ns"]
    assert opened["drain"] > node_started["t_ns"]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta: meta["host"].update(kernel="5.0-other"), "kernel was 5.0-other, now "),
        (lambda meta: meta["host"].update(cpus=1024), "cpus was 1024, now "),
        (lambda meta: meta["build"].update(sha256="0" * 64), "the node program's sha256 was 0000"),
        (lambda meta: meta["node_hello"].update(dpdk="DPDK 1.2"), "the node's dpdk was DPDK 1.2, now played"),
        (lambda meta: meta["noise"][0].update(cpu=77), "the first trial's CPUs were 77, "),
    ],
)
def test_a_run_is_resumed_only_where_it_began(hosts: PlayedHosts, change: Any, message: str) -> None:
    hosts.faults = {"1": "refuse"}
    assert hosts("run", hosts.spec(SPEC), "--testbed", hosts.loopback(), "--set", "failures.tries=1").returncode == 1
    file = hosts.run_folder() / "run.json"
    before = file.read_text()
    meta = json.loads(before)
    change(meta)
    file.write_text(json.dumps(meta))
    done = hosts.resume()
    assert done.returncode == 3
    assert message in done.stderr.splitlines()[-1]
    assert len(hosts.run().trials) == 1
    file.write_text(before)
    assert hosts.resume().returncode == 0
    assert_complete(hosts.run())


def test_the_floor_is_that_of_the_knobs(hosts: PlayedHosts, tmp_path: Path) -> None:
    tree = Tree(tmp_path / "tree")
    text = with_parameters("{generator_receives: true, load_pps: 0}")
    text += "factors: {knob.governor: [performance, powersave], queues: [1, 2]}\n"
    hosts.ran(text, hosts.loopback(knob_root=str(tree.root)))
    floors = {trial["point"]: trial["floor"] for trial in hosts.run().trials}
    for point, floor in floors.items():
        assert "latency_ns" in floor, floor
        assert floor["knobs"] == {"governor": point.partition("knob.governor=")[2].partition(",")[0]}
    assert sum(each["trial"] == "floor" for each in hosts.requests()) == 2


def test_a_node_that_dies_over_the_floor_costs_no_trial(hosts: PlayedHosts) -> None:
    hosts.faults = {"1": "die"}
    text = with_parameters("{generator_receives: true, load_pps: 0}") + "factors: {queues: [1, 2]}\n"
    hosts.ran(text)
    assert_complete(hosts.run())
    assert all("it could not be measured" in trial["floor"]["absent"] for trial in hosts.run().trials)


def test_a_later_point_that_needs_more_memory_gets_another_node(hosts: PlayedHosts) -> None:
    """Without hugepages EAL takes the memory of the first point at its start, and no more later."""
    text = SPEC + "factors: {queues: [1, 512], rx_desc: [256, 1024]}\norder: {randomise: false}\n"
    hosts.ran(text, hosts.loopback(hugepages="never"))
    taken = [int(arguments.partition(" -m ")[2].split()[0]) for arguments in hosts.started()]
    largest = next(trial["params"] for trial in hosts.run().trials if trial["point"] == "queues=512,rx_desc=1024")
    assert max(taken) << 20 > largest["queues"] * largest["rx_desc"] * 2048
    assert len(taken) > 1


@pytest.mark.thorough
def test_collectors_take_turns_on_each_of_several_pairs(hosts: PlayedHosts) -> None:
    turns = "collectors: {rotate: [{name: kernel-load, interval: 10 ms}, cpu-settings]}\n"
    text = SPEC.replace("count: 1", "count: 4") + turns
    hosts.ran(text, hosts.pairs("first", "second"))
    collected = {(trial["pair"], key.partition("/")[2]) for trial in hosts.run().trials for key in trial["collectors"]}
    assert collected == {(pair, name) for pair in ("first", "second") for name in ("kernel-load", "cpu-settings")}


@pytest.mark.thorough
def test_a_run_is_not_resumed_with_another_trace(hosts: PlayedHosts) -> None:
    (hosts.folder / "day.pcap").touch()
    text = with_parameters("{load_pps: 1 Mpps, trace: day.pcap}").replace("count: 1", "count: 3")
    run = hosts.ran(text)
    lines = [json.loads(line) for line in (run.path / "trials.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines[:2]):
        line["result"]["gen"]["lcores"][0]["trace"] = {"packets": 10 + number, "flows": 2, "duration_ns": 100}
    (run.path / "trials.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines[:2]))
    done = hosts.resume()
    assert done.returncode == 3, done.stderr
    assert "trace day.pcap: had 11 packets of 2 flows in 100 ns at trial measure:" in done.stderr
    assert ", and had 10 packets of 2 flows in 100 ns at trial measure:" in done.stderr
