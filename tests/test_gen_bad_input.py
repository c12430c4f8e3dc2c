# SPDX-License-Identifier: BSD-3-Clause
"""Check that every wrong "gen" object and rate is refused with the key's place, and that the node continues."""

from typing import Any

import pytest
from gen_node import RECEIVES, Generator

from pollscope.node.client import NodeRefused

BAD_KEYS: list[tuple[dict[str, Any], str, str]] = [
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
]


@pytest.mark.parametrize(("change", "where", "text"), BAD_KEYS, ids=[f"{where}" for _, where, _ in BAD_KEYS])
def test_bad_key_is_refused(generator: Generator, change: dict[str, Any], where: str, text: str) -> None:
    with pytest.raises(NodeRefused) as refused:
        generator.configure(**change)
    assert refused.value.where == where
    assert text in refused.value.what


BAD_RATES: list[tuple[dict[str, Any], str]] = [
    ({"pps": -1}, "rate.pps"),
    ({"pps": 0.01}, "rate.pps"),
    ({"pps": 1e9}, "rate.pps"),
    ({"line_share": 1.5}, "rate.line_share"),
    ({"speed": 5}, "rate.speed"),
    ({"pps": 1000, "saturate": True}, "rate"),
    ({}, "rate"),
]


@pytest.mark.parametrize(("rate", "where"), BAD_RATES, ids=[str(rate) for rate, _ in BAD_RATES])
def test_bad_rate_is_refused(generator: Generator, rate: dict[str, Any], where: str) -> None:
    generator.configure()
    with pytest.raises(NodeRefused) as refused:
        generator.trial(rate)
    assert refused.value.where == where


def test_trial_too_long_for_the_stamp_is_refused(generator: Generator) -> None:
    generator.configure()
    times = {"warmup_ns": 0, "window_ns": 24 * 3600 * 10**9, "drain_max_ns": 0}
    with pytest.raises(NodeRefused, match="too long") as refused:
        generator.client.request("start", 10, trial="t", rate={"saturate": True}, **times)
    assert refused.value.where == "window_ns"


def test_the_node_continues_after_a_refusal(generator: Generator) -> None:
    with pytest.raises(NodeRefused):
        generator.configure(burst=0)
    generator.configure()
    gen, ports = generator.trial({"pps": 100_000})
    assert gen["total"]["sent"] == ports[RECEIVES]["stats"]["ipackets"] > 0
