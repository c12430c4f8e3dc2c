# SPDX-License-Identifier: BSD-3-Clause
"""Check the `configure` request that a point's parameters become."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pollscope.node.requests import Wiring, configure_request, rate_request, with_seeds_of
from pollscope.spec.model import Parameters

WIRING = Wiring(generator_lcores=(1,), dut_lcores=(2,), gen_tx="a", dut_rx="b", dut_tx="c", gen_rx="d")


def params(**changes: Any) -> Parameters:
    return Parameters().model_copy(update=changes)


@pytest.mark.parametrize("encapsulation", ["gre-ipv6", "ipip"])
def test_encapsulation_reaches_the_workload_that_has_one(encapsulation: str) -> None:
    encap = configure_request(params(workload="encap", encapsulation=encapsulation), WIRING)["dut"]
    assert encap["encapsulation"] == encapsulation
    assert "encapsulation" not in configure_request(params(workload="io"), WIRING)["dut"]


def test_a_transform_reaches_only_ipsec() -> None:
    dut = configure_request(params(workload="ipsec", transform="aes-gcm", routes=300), WIRING)["dut"]
    assert (dut["transform"], dut["routes"]) == ("aes-gcm", 300)
    assert "transform" not in configure_request(params(workload="l3fwd-lpm"), WIRING)["dut"]


def test_a_shared_buffer_pool_reaches_the_port_that_the_dut_receives_on() -> None:
    ports = configure_request(params(rx_buffers="shared", rx_buffer_pool=128), WIRING)["ports"]
    sizes = {port["name"]: port.get("buffer_pool") for port in ports}
    assert sizes == {"a": None, "b": 128, "c": None, "d": None}


def test_every_repeat_draws_its_own_delays_and_the_traffic_stays() -> None:
    first, second = (with_seeds_of(params(hiccup_seed=7, service_seed=9), repeat) for repeat in (0, 1))
    assert (first.hiccup_seed, first.service_seed) == (7, 9)
    changed = {name for name, value in first if value != getattr(second, name)}
    assert changed == {"hiccup_seed", "service_seed"}


def test_a_trace_takes_the_place_of_sizes_and_flows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    replay = params(trace="day.pcap", arrivals="trace", load_of_trace=2.0)
    gen = configure_request(replay, WIRING)["gen"]
    assert gen["trace"] == str(tmp_path / "day.pcap") and gen["arrivals"] == "trace"
    assert not {"frame", "flows"} & set(gen)
    assert rate_request(replay, None) == {"trace_share": 2.0}
    assert "trace" not in configure_request(params(), WIRING)["gen"]


@pytest.mark.parametrize(
    ("changes", "lcores"),
    [
        ({}, [1, 5, 6]),
        ({"flows": 2}, [1, 5]),
        ({"trace": "t.pcap", "flows": 1}, [1, 5, 6]),
        ({"generator_sleep": 9}, [1]),
    ],
)
def test_the_generator_has_a_queue_for_each_lcore_to_send_on_and_to_read(
    changes: dict[str, Any], lcores: list[int]
) -> None:
    request = configure_request(params(**changes), replace(WIRING, generator_lcores=(1, 5, 6)))
    assert request["gen"]["lcores"] == lcores
    queues = {port["name"]: (port["rx_queues"], port["tx_queues"]) for port in request["ports"]}
    assert queues == {"a": (1, len(lcores)), "b": (1, 1), "c": (1, 1), "d": (len(lcores), 1)}


def test_an_agent_is_the_other_end_of_the_ports_of_the_dut() -> None:
    request = configure_request(params(generator="agent", queues=4), replace(WIRING, generator_lcores=(1, 5, 6)))
    assert {port["name"]: port["rx_queues"] for port in request["ports"]} == {"b": 4, "c": 1}
    ends = {name: request["gen"][name] for name in ("generator", "lcores", "target_port", "rx_port", "reads_port")}
    assert ends == {"generator": "agent", "lcores": [1], "target_port": "b", "rx_port": "c", "reads_port": "c"}
    assert "tx_port" not in request["gen"]
    blind = configure_request(params(generator="agent", generator_receives=False), WIRING)["gen"]
    assert (blind["rx_port"], blind["reads_port"]) == (None, "c")
    fed = configure_request(params(generator="agent", feed="infinite"), WIRING)
    assert "gen" not in fed and len(fed["ports"]) == 4


@pytest.mark.parametrize(
    ("workload", "own"),
    [
        ("steer", {"sessions", "task_data"}),
        ("rs", {"task_buffers", "parity_buffers", "task_data"}),
        ("raid", {"task_buffers", "task_data"}),
        ("dispatch", {"task_data"}),
        ("io", set()),
    ],
)
def test_a_task_gets_its_own_parameters(workload: str, own: set[str]) -> None:
    values = {"sessions": 100, "task_buffers": 6, "parity_buffers": 3, "task_data": 4096}
    dut = configure_request(params(workload=workload, **values), WIRING)["dut"]
    assert {name: dut[name] for name in values if name in dut} == {name: values[name] for name in own}
