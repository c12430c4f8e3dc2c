# SPDX-License-Identifier: BSD-3-Clause
"""Check which configurations of DUT, generator or feed a node refuses: the place of the key, and words that help."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dut_node import DUT_LCORE, DUT_RX, DUT_TX, GEN_RX, SECOND_DUT_LCORE, Node, configuration, running_node

LCORES = "0@0,1@0,2@1,3@1,4@1,5@1,6@1"
FIXED = {"kind": "fixed", "ns": 20_000}
MEGA = 1_000_000


def transmitter(**dut: Any) -> dict[str, Any]:
    ports = [{"name": DUT_TX}, {"name": GEN_RX}]
    return {"ports": ports, "dut": {"lcores": [DUT_LCORE], "tx_port": DUT_TX, "workload": "tx", **dut}}


def with_buffers(buffers: str, buffer_pool: int = 256, **dut: Any) -> dict[str, Any]:
    asked = configuration(queues=2, rx_desc=1024, lcores=[2, 3], **dut)
    asked["ports"][1] |= {"buffers": buffers, "buffer_pool": buffer_pool}
    return asked


def generator(**gen: Any) -> dict[str, Any]:
    asked = configuration()
    return asked | {"gen": asked["gen"] | gen}


# A configuration that is accepted.
BASES: dict[str, Callable[..., dict[str, Any]]] = {
    "two queues": lambda **dut: configuration(**{"queues": 2, "lcores": [2, 3], **dut}),
    "one core": configuration,
    "qwait": lambda **dut: configuration(**{"queues": 8, "notification": "qwait", **dut}),
    "rebalanced": lambda **dut: configuration(
        **{"queues": 2, "organisation": "rebalanced", "lcores": [2, 3], "rebalance_period_ns": 20 * MEGA, **dut}
    ),
    "ipsec": lambda **dut: configuration(**{"workload": "ipsec", **dut}),
    "transmitter": transmitter,
    "buffers": with_buffers,
    "generator": generator,
    "feed": lambda **feed: configuration(generator=False) | {"feed": feed},
}
# Changes of it that are refused, `where` of the refusal, and words of its text.
REFUSED: dict[str, list[tuple[Any, ...]]] = {
    "two queues": [
        ({"organisation": "scale-up"}, "dut.dispatchers"),
        ({"organisation": "scale-up", "dispatchers": []}, "dut.dispatchers"),
        ({"dispatchers": [4]}, "dut.dispatchers"),
        ({"dispatchers": [3, 4]}, "dut.dispatchers"),
        ({"dispatchers": [4, 4]}, "dut.dispatchers"),
        ({"dispatchers": [0, 4]}, "dut.dispatchers"),
        ({"dispatchers": [99]}, "dut.dispatchers"),
        ({"dispatchers": 4}, "dut.dispatchers"),
        ({"dispatchers": ["4"]}, "dut.dispatchers"),
        ({"organisation": "scale-up", "dispatchers": [4, 5, 6]}, "dut.dispatchers"),
        ({"organisation": "locked", "dispatchers": [4]}, "dut.dispatchers"),
        ({"ring_sync": "rts"}, "dut.ring_sync"),
        ({"organisation": "scale-up", "dispatchers": [4], "ring_sync": "st"}, "dut.ring_sync"),
        ({"ring_size": 512}, "dut.ring_size"),
        ({"dispatchers": [4, 5], "ring_size": 1000}, "dut.ring_size"),
        ({"dispatchers": [4, 5], "ring_size": 1}, "dut.ring_size"),
        ({"dispatchers": [4, 5], "ring_size": 2**21}, "dut.ring_size"),
        ({"dispatchers": [4, 5], "ring_size": "1024"}, "dut.ring_size"),
        ({"lcores": [2, 3, 4]}, "dut.lcores"),
        ({"organisation": "locked", "lcores": [2, 3, 4], "tx_port": DUT_RX}, "dut.lcores"),
        ({"rx_desc": 192, "organisation": "corec"}, "ports[1]", "Invalid argument"),
        ({"lcores": [2], "organisation": "corec", "dispatchers": [3]}, "dut.dispatchers", "corec has none"),
        ({"accounting": "transition"}, "dut.accounting", "must be one of: none, count, sampled, full"),
        ({"workload": "io", "task_data": 64}, "dut.task_data"),
        ({"workload": "io", "sessions": 64}, "dut.sessions"),
        ({"workload": "steer", "sessions": 7}, "dut.sessions"),
        ({"workload": "steer", "task_buffers": 4}, "dut.task_buffers"),
        ({"workload": "rs", "task_buffers": 1}, "dut.task_buffers"),
        ({"workload": "rs", "task_buffers": 33}, "dut.task_buffers"),
        ({"workload": "rs", "parity_buffers": 17}, "dut.parity_buffers"),
        ({"workload": "raid", "parity_buffers": 2}, "dut.parity_buffers"),
        ({"workload": "raid", "task_data": 2**20 + 1}, "dut.task_data"),
        ({"workload": "dispatch", "tx_port": None}, "dut.tx_port"),
        ({"hiccup": 1}, "dut.hiccup"),
        ({"hiccup": {}}, "dut.hiccup.probability"),
        ({"hiccup": {"probability": 1.5, "delay": FIXED}}, "dut.hiccup.probability"),
        ({"hiccup": {"probability": -0.1, "delay": FIXED}}, "dut.hiccup.probability"),
        ({"hiccup": {"probability": "often", "delay": FIXED}}, "dut.hiccup.probability"),
        ({"hiccup": {"probability": 0.1}}, "dut.hiccup.delay"),
        ({"hiccup": {"probability": 0.1, "delay": 5}}, "dut.hiccup.delay"),
        ({"hiccup": {"probability": 0.1, "delay": {}}}, "dut.hiccup.delay.kind"),
        ({"hiccup": {"probability": 0.1, "delay": {"kind": "pareto"}}}, "dut.hiccup.delay.kind"),
        ({"hiccup": {"probability": 0.1, "delay": {"kind": "fixed"}}}, "dut.hiccup.delay.ns"),
        ({"hiccup": {"probability": 0.1, "delay": {"kind": "fixed", "ns": -1}}}, "dut.hiccup.delay.ns"),
        ({"hiccup": {"probability": 0.1, "delay": {"kind": "fixed", "ns": 1e10}}}, "dut.hiccup.delay.ns"),
        ({"hiccup": {"probability": 0.1, "delay": {"kind": "fixed", "mean_ns": 1}}}, "dut.hiccup.delay.mean_ns"),
        ({"hiccup": {"probability": 0.1, "delay": {"kind": "exponential", "ns": 1}}}, "dut.hiccup.delay.ns"),
        ({"hiccup": {"probability": 0.1, "delay": {"kind": "list", "ns": []}}}, "dut.hiccup.delay.ns"),
        ({"hiccup": {"probability": 0.1, "delay": {"kind": "list", "ns": 5}}}, "dut.hiccup.delay.ns"),
        ({"hiccup": {"probability": 0.1, "delay": {"kind": "list", "ns": [1, None]}}}, "dut.hiccup.delay.ns"),
        ({"hiccup": {"probability": 0.1, "delay": {"kind": "list", "ns": [1] * 1025}}}, "dut.hiccup.delay.ns"),
        ({"hiccup": {"probability": 0.1, "delay": FIXED, "seed": -1}}, "dut.hiccup.seed"),
        ({"hiccup": {"probability": 0.1, "delay": FIXED, "chance": 1}}, "dut.hiccup.chance"),
        ({"service": []}, "dut.service"),
        ({"service": {}}, "dut.service.kind"),
        ({"service": {"kind": "list"}}, "dut.service.kind"),
        ({"service": {"kind": "fixed"}}, "dut.service.cycles"),
        ({"service": {"kind": "fixed", "cycles": 1e9}}, "dut.service.cycles"),
        ({"service": {"kind": "exponential", "cycles": 5}}, "dut.service.cycles"),
        ({"service": {"kind": "bimodal", "short_cycles": 1, "long_cycles": 2}}, "dut.service.long_probability"),
        (
            {"service": {"kind": "bimodal", "short_cycles": 1, "long_cycles": 2, "long_probability": 2}},
            "dut.service.long_probability",
        ),
        ({"service": {"kind": "fixed", "cycles": 5}, "extra_cycles": 5}, "dut.extra_cycles"),
        ({"extra_cycles": -1}, "dut.extra_cycles"),
    ],
    "one core": [
        ({"frame": [{"bytes": 64}]}, "dut.frame"),
        ({"flows": 5}, "dut.flows"),
        ({"encapsulation": "ipip"}, "dut.encapsulation"),
        ({"workload": "encap", "encapsulation": "vxlan"}, "dut.encapsulation"),
        ({"tx_pool": "shared"}, "dut.tx_pool"),
        ({"workload": "io", "lookups": 2}, "dut.lookups"),
        ({"workload": "io", "checksum": "udp"}, "dut.checksum"),
        ({"workload": "l3fwd-lpm", "checksum": "tcp"}, "dut.checksum"),
        ({"lookups": 0}, "dut.lookups"),
        ({"lookups": 1025}, "dut.lookups"),
        ({"workload": "rx", "rx_port": None}, "dut.rx_port"),
    ],
    "qwait": [
        ({"accounting": "full"}, "dut.accounting"),
        ({"organisation": "corec"}, "dut.notification"),
        ({"organisation": "scale-up", "lcores": [2], "dispatchers": [3]}, "dut.notification"),
        ({"notification": "spin", "ready_set": "linear"}, "dut.ready_set"),
        ({"notification": "spin", "ready_set_sharing": "shared"}, "dut.ready_set_sharing"),
        ({"notification": "qwait", "ready_set_sharing": "each"}, "dut.ready_set_sharing"),
        ({"notification": "spin", "service_order": "strict"}, "dut.service_order"),
        ({"notification": "spin", "idle": "sleep"}, "dut.idle"),
        ({"service_order": "weighed"}, "dut.service_order"),
        ({"service_order": "weighted"}, "dut.queue_weights"),
        ({"service_order": "weighted", "queue_weights": []}, "dut.queue_weights"),
        ({"service_order": "weighted", "queue_weights": [1, 0]}, "dut.queue_weights"),
        ({"service_order": "weighted", "queue_weights": [1.5]}, "dut.queue_weights"),
        ({"service_order": "strict", "queue_weights": [2]}, "dut.queue_weights"),
        ({"notification": "spin", "queue_weights": [2]}, "dut.queue_weights"),
        ({"idle": "nap"}, "dut.idle"),
        ({"wait_after_ns": 1000}, "dut.wait_after_ns"),
        ({"idle": "pause", "wait_after_ns": 1000}, "dut.wait_after_ns"),
        ({"notification": "interrupt", "wait_after_ns": 1000}, "dut.wait_after_ns"),
        ({"notification": "adaptive", "wait_after_ns": -1}, "dut.wait_after_ns"),
        ({"notification": "adaptive", "wait_after_ns": 10**9 + 1}, "dut.wait_after_ns"),
        ({"notification": "interrupt", "idle": "sleep"}, "dut.idle"),
        ({"notification": "interrupt", "accounting": "count"}, "dut.accounting"),
        ({"notification": "sleep-ramp", "organisation": "corec"}, "dut.notification"),
    ],
    "rebalanced": [
        ({"queues": 3, "lcores": [2, 3]}, "dut.lcores", "one RX queue"),
        ({"dispatchers": [4]}, "dut.dispatchers", "rebalanced has none"),
        ({"notification": "qwait"}, "dut.notification", "scale-out"),
        ({"accounting": "full"}, "dut.accounting", "rebalanced"),
        ({"rebalance_period_ns": 999_999}, "dut.rebalance_period_ns", "1000000"),
        ({"rebalance_period_ns": 10**10 + 1}, "dut.rebalance_period_ns", "10000000000"),
        ({"rebalance_threshold": -0.1}, "dut.rebalance_threshold", "0"),
        ({"rebalance_threshold": "small"}, "dut.rebalance_threshold", "number"),
        ({"organisation": "scale-out"}, "dut.rebalance_period_ns", "leave it out with scale-out"),
    ],
    "ipsec": [
        ({"transform": "des"}, "dut.transform"),
        ({"routes": 2}, "dut.routes"),
        ({"lookups": 2}, "dut.lookups"),
        ({"tx_port": None}, "dut.tx_port"),
        ({"workload": "io", "transform": "aes-gcm"}, "dut.transform"),
    ],
    "transmitter": [
        ({"rx_port": DUT_TX}, "dut.rx_port"),
        ({"tx_port": None}, "dut.tx_port"),
        ({"frame": []}, "dut.frame"),
        ({"frame": [{"bytes": 63}]}, "dut.frame[0].bytes"),
        ({"frame": [{"bytes": 64}, {"bytes": 1519}]}, "dut.frame"),
        ({"frame": [{"bytes": 64, "weight": 0}]}, "dut.frame[0].weight"),
        ({"frame": [{"weight": 1}]}, "dut.frame[0].bytes"),
        ({"frame": [{"bytes": 64}] * 17}, "dut.frame"),
        ({"flows": 0}, "dut.flows"),
        ({"flows": 65537}, "dut.flows"),
        ({"organisation": "locked"}, "dut.organisation"),
        ({"dispatchers": [SECOND_DUT_LCORE]}, "dut.organisation"),
        ({"encapsulation": "ipip"}, "dut.encapsulation"),
        ({"lookups": 2}, "dut.lookups"),
        ({"tx_pool": "one"}, "dut.tx_pool"),
    ],
    "buffers": [
        ({"buffers": "heap"}, "ports[1].buffers", "split"),
        ({"buffers": "shared", "buffer_pool": 63}, "ports[1].buffer_pool", "64"),
        ({"buffers": "split", "buffer_pool": 1025}, "ports[1].buffer_pool", "1024"),
        ({"buffers": "posted"}, "ports[1].buffer_pool", "leave it out with posted"),
        ({"buffers": "shared", "organisation": "corec"}, "dut.organisation", "posted buffers"),
        ({"buffers": "split", "notification": "interrupt"}, "dut.notification", "posted buffers"),
    ],
    "generator": [
        ({"frames": []}, "gen.frames", "unknown key"),
        ({"lcores": [0]}, "gen.lcores", "worker"),
        ({"lcores": [77]}, "gen.lcores", "worker"),
        ({"lcores": ["one"]}, "gen.lcores", "worker"),
        ({"lcores": 1}, "gen.lcores", "array"),
        ({"lcores": [1, 1]}, "gen.lcores", "twice"),
        ({"tx_port": "net_crossover9_a"}, "gen.tx_port", "net_crossover9_a"),
        ({"tx_port": None}, "gen.tx_port", "required"),
        ({"rx_port": "nope"}, "gen.rx_port", "nope"),
        ({"target_port": 3}, "gen.target_port", "string"),
        ({"frame": []}, "gen.frame", "1..16"),
        ({"frame": 64}, "gen.frame", "array"),
        ({"frame": [{"bytes": 63}]}, "gen.frame[0].bytes", "64"),
        ({"frame": [{"bytes": 64}, {"bytes": 9001}]}, "gen.frame[1].bytes", "9000"),
        ({"frame": [{"weight": 1}]}, "gen.frame[0].bytes", "required"),
        ({"frame": [{"bytes": 64, "weight": 0}]}, "gen.frame[0].weight", "1"),
        ({"frame": [{"bytes": 64, "size": 1}]}, "gen.frame[0].size", "unknown key"),
        ({"frame": [{"bytes": 1519}]}, "gen.frame", "MTU 1500"),
        ({"flows": 0}, "gen.flows", "1"),
        ({"flows": 65537}, "gen.flows", "65536"),
        ({"routes": 0}, "gen.routes", "1"),
        ({"shape": "fb"}, "gen.shape", "FB, PC, NC, SQ"),
        ({"concentrated_share": 1.5}, "gen.concentrated_share", "1"),
        ({"concentrated_queues": 0}, "gen.concentrated_queues", "1"),
        ({"background_probability": -0.1}, "gen.background_probability", "0"),
        ({"background_probability": 1.1}, "gen.background_probability", "1"),
        ({"busy_poll_packets": 0}, "gen.busy_poll_packets", "1"),
        ({"busy_poll_packets": 513}, "gen.busy_poll_packets", "512"),
        ({"arrivals": "bursty"}, "gen.arrivals", "constant, poisson, trace, bursts, on-off"),
        ({"arrivals": "bursts", "burst_packets": 0}, "gen.burst_packets", "1"),
        ({"arrivals": "on-off", "on_ns": 0}, "gen.on_ns", "1"),
        ({"burst": 0}, "gen.burst", "1"),
        ({"burst": 257}, "gen.burst", "256"),
        ({"late_max_ns": 3000001}, "gen.late_max_ns", "3000000"),
        ({"departures": -1}, "gen.departures", "0"),
        ({"sleep_ns": 10000001}, "gen.sleep_ns", "10000000"),
        ({"seed": 1.5}, "gen.seed", "integer"),
        ({"trace": 7}, "gen.trace", "string"),
        ({"trace": "t.pcap", "flows": 5}, "gen.trace", "flows"),
        ({"trace": "t.pcap", "frame": [{"bytes": 64}]}, "gen.trace", "frame"),
        ({"trace": "t.pcap", "shape": "SQ"}, "gen.shape", "FB"),
        ({"arrivals": "trace"}, "gen.arrivals", "needs a trace"),
        ({"nic_stamps_ns": 99_999}, "gen.nic_stamps_ns", "at least 100000"),
        ({"nic_stamps_ns": 10**6, "rx_port": None}, "gen.nic_stamps_ns", "needs rx_port"),
    ],
    "feed": [
        ({}, "feed.port", "required"),
        ({"port": "nope"}, "feed.port", "nope"),
        ({"port": DUT_TX}, "feed.port", "feed=infinite"),
        ({"port": DUT_RX, "shape": "pc"}, "feed.shape", "FB, PC, NC, SQ"),
        ({"port": DUT_RX, "background_probability": 1.5}, "feed.background_probability", "1"),
        ({"port": DUT_RX, "background_probability": -0.5}, "feed.background_probability", "0"),
        ({"port": DUT_RX, "background_probability": "5 %"}, "feed.background_probability", "number"),
        ({"port": DUT_RX, "concentrated_share": 1.5}, "feed.concentrated_share", "1"),
        ({"port": DUT_RX, "concentrated_queues": 0}, "feed.concentrated_queues", "1"),
        ({"port": DUT_RX, "shape_seed": -1}, "feed.shape_seed", "0"),
        ({"port": DUT_RX, "flows": 7}, "feed.flows", "unknown key"),
        ({"port": DUT_RX, "seed": -1}, "feed.seed", "0"),
    ],
}


@pytest.mark.parametrize(
    ("base", "changes", "where", "words"),
    [(base, changes, where, "".join(words)) for base, rows in REFUSED.items() for changes, where, *words in rows],
)
def test_configure_refuses(node: Node, base: str, changes: dict[str, Any], where: str, words: str) -> None:
    reply = node.ask("configure", **BASES[base](**changes))
    assert (reply["ok"], reply["where"]) == (False, where), reply
    assert words in reply["error"] != ""
    assert "\n" not in reply["error"]


@pytest.mark.parametrize(
    "dut",
    [
        {"organisation": "locked"},
        {"organisation": "trylock"},
        {"organisation": "corec"},
        {"organisation": "scale-up", "lcores": [2], "dispatchers": [3]},
        {"lcores": [2], "dispatchers": [3]},
        {"extra_cycles": 1},
        {"service": {"kind": "exponential", "mean_cycles": 0}},
        {"hiccup": {"probability": 0, "delay": {"kind": "fixed", "ns": 1}}},
    ],
    ids=lambda dut: "-".join(dut),
)
def test_only_mode_sampled_goes_with_everything(node: Node, dut: dict[str, Any]) -> None:
    others = "cannot be combined with rings, shared or rebalanced queues, or delays (use sampled)"
    for mode in ("none", "count", "full"):
        reply = node.ask("configure", **configuration(accounting=mode, **dut))
        assert (reply["ok"], reply["where"], reply["error"]) == (False, "dut.accounting", f"{mode} {others}")
    assert node.ask("configure", **configuration(accounting="sampled", **dut))["ok"]


@pytest.mark.parametrize("vdev", ["dma=swap", "feed=infinite"])
def test_a_pair_that_swaps_or_feeds_itself_is_refused(build_dir: Path, tmp_path: Path, vdev: str) -> None:
    asked = [(with_buffers("shared", generator=False), "dma=swap")]
    if vdev == "feed=infinite":
        for notification in ("qwait", "interrupt", "adaptive", "monitor-multi"):
            asked.append((configuration(queues=4, generator=False, notification=notification), "feed="))
    pairs, halts = (f"net_crossover0,{vdev}", "net_crossover1"), build_dir / "tests-halts.so"
    with running_node(build_dir, tmp_path / "log", vdevs=pairs, lcores=LCORES, preload=halts) as fed:
        for request, words in asked:
            reply = fed.ask("configure", **request)
            assert reply["ok"] is False and words in reply["error"], reply
