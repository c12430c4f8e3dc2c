# SPDX-License-Identifier: BSD-3-Clause
"""Test which CPUs a pair's DUT gets: those of the file in its order, or by the topology of the DUT's host."""

import os
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pair_hosts import pair_config, written
from run_helpers import Cli
from ssh_host import SshHost
from test_placement import machine

from pollscope.base.errors import HostError
from pollscope.run import agent
from pollscope.run.agent import Agent
from pollscope.spec.model import Parameters
from pollscope.testbeds.pair.config import PairHost, Ports
from pollscope.testbeds.pair.placement import DutPlacement
from pollscope.testbeds.pair.remote_host import RemoteHost
from pollscope.testbeds.pair.session import wiring
from pollscope.testbeds.pair.ssh import Remote

# One socket of six cores with two threads each: CPU 6 is the second thread of CPU 0, and so on.
SMT = machine(1, 6, 2)
NAMED = (1, 2, 3, 7, 8, 9)


class Asked(RemoteHost):
    """A DUT's host whose agent is in this process."""

    def __init__(self, cpus: tuple[int, ...], folder: Path) -> None:
        ports = Ports(rx="0000:17:00.0", tx="0000:17:00.0")
        config = PairHost(ssh=Remote(host="127.0.0.1"), ports=ports, main_cpu=0, cpus=cpus)
        super().__init__("dut", config, "prefix")
        self.requests: list[str] = []
        self._agent = Agent(folder)

    def ask(self, request: str, **fields: Any) -> dict[str, Any]:
        self.requests.append(request)
        reply = self._agent.answer({"cmd": request, "id": 1, **fields})
        if failed := reply.get("failed"):
            raise HostError(failed["what"], str(self))
        return reply


@pytest.fixture
def smt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "online_cpus", lambda: SMT)


def params(**changes: Any) -> Parameters:
    return Parameters().model_copy(update=changes)


def test_the_order_of_the_file_needs_no_agent(tmp_path: Path) -> None:
    host = Asked(NAMED, tmp_path)
    two = params(cores=2, organisation="scale-up", dispatchers=1)
    assert DutPlacement(host).cpus(two) == (1, 2, 3)
    assert DutPlacement(host).lcores(two) == [1, 2, 3]
    assert host.requests == []


def test_pairs_are_the_threads_of_a_core_of_the_duts_host(smt: None, tmp_path: Path) -> None:
    host = Asked(NAMED, tmp_path)
    placement = DutPlacement(host)
    pairs = params(cores=2, dispatchers=2, organisation="scale-up", placement="smt-pairs")
    assert placement.refusal(pairs) is None
    cpus = placement.cpus(pairs)
    core = {cpu.cpu: cpu.physical for cpu in SMT}
    assert core[cpus[0]] == core[cpus[1]] != core[cpus[2]] == core[cpus[3]]
    assert set(cpus) <= set(NAMED)
    assert [NAMED[lcore - 1] for lcore in placement.lcores(pairs)] == list(cpus)
    assert host.requests == ["placement"], "asked once"


def test_the_node_gets_the_lcores_on_these_cpus(smt: None, tmp_path: Path) -> None:
    host = Asked(NAMED, tmp_path)
    pairs = params(cores=2, dispatchers=2, organisation="scale-up", placement="smt-pairs")
    placement = DutPlacement(host)
    config: Any = SimpleNamespace(dut=host.config, generator=host.config, generator_lcores=1)
    wires = wiring(config, pairs, placement.lcores(pairs))
    at = {lcore: NAMED[lcore - 1] for lcore in (*wires.dut_lcores, *wires.dispatcher_lcores)}
    assert tuple(at[lcore] for lcore in wires.dut_lcores) == placement.cpus(pairs)[:2]
    assert tuple(at[lcore] for lcore in wires.dispatcher_lcores) == placement.cpus(pairs)[2:]


@pytest.mark.parametrize(
    ("cpus", "changes", "reason"),
    [
        ((1, 2, 3), {"cores": 2, "placement": "smt-pairs"}, "smt-pairs: this host shows no SMT"),
        ((1, 2, 7), {"cores": 4, "placement": "smt-pairs"}, "needs 4 CPUs (4 workers)"),
        (NAMED, {"placement": "remote-node"}, "remote-node: this host has 1 NUMA node"),
        (NAMED, {"placement": "5"}, "placement: this host has no CPU 5 to give"),
        ((1, 400), {"placement": "same-node"}, "there is no CPU 400 here, which the testbed's file names"),
    ],
)
def test_an_impossible_placement_gives_its_reason(
    smt: None, tmp_path: Path, cpus: tuple[int, ...], changes: dict[str, Any], reason: str
) -> None:
    placement = DutPlacement(Asked(cpus, tmp_path))
    assert reason in str(placement.refusal(params(**changes)))
    with pytest.raises(HostError, match="CPU"):
        placement.cpus(params(**changes))


def test_a_listed_cpu_is_the_lcore_on_it(smt: None, tmp_path: Path) -> None:
    assert DutPlacement(Asked(NAMED, tmp_path)).lcores(params(placement="9")) == [6]


def test_the_nic_says_which_node_is_near(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pollscope.host.topology import Nic

    monkeypatch.setattr(agent, "online_cpus", lambda: machine(2, 2, 1))
    nic = Nic("0000:17:00.0", [], None, None, 1, "", None, None)
    assert asdict(nic)["numa_node"] == 1
    monkeypatch.setattr(agent, "nics", lambda: [nic])
    placement = DutPlacement(Asked((0, 1, 2, 3), tmp_path))
    assert set(placement.cpus(params(cores=2, placement="same-node"))) == {2, 3}
    assert set(placement.cpus(params(cores=2, placement="remote-node"))) == {0, 1}


@pytest.mark.thorough
def test_the_duts_host_is_asked_over_ssh(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    file = written(tmp_path / "two.yaml", pair_config(sshd, tmp_path, {"cpus": cpus}))
    listed = f"parameters={{placement: [{cpus[-1]}], load_pps: 0, generator_receives: false}}"
    spec = "format: 1\nname: placed\nrow: S-F18\ntitle: t\ntestbeds: [pair]\nrepeats: {count: 1}\n"
    assert "left out" not in cli.ends(0, "plan", cli.spec(spec), "--testbed", file, "--set", listed).stdout
    refused = cli.ends(3, "plan", cli.spec(spec), "--testbed", file, "--set", listed.replace(f"[{cpus[-1]}]", "[4000]"))
    assert "placement: this host has no CPU 4000 to give" in refused.said
