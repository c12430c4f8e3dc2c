# SPDX-License-Identifier: BSD-3-Clause
"""Test CPUs that the file of a loopback testbed names."""

from pathlib import Path
from typing import Any

import pytest

from pollscope.base.errors import UsageError
from pollscope.host.cpus import Cpu
from pollscope.node.requests import configure_request
from pollscope.spec.lcores import dut_lcores
from pollscope.spec.model import Parameters
from pollscope.testbeds.config import make_testbed
from pollscope.testbeds.loopback import Lcores, LoopbackTestbed


def named(folder: Path, cpus: str) -> LoopbackTestbed:
    path = folder / "mine.yaml"
    path.write_text(f"kind: loopback\ncpus: {cpus}\n")
    found = make_testbed(str(path))
    assert isinstance(found, LoopbackTestbed)
    return found


def test_a_generator_has_the_cpus_that_are_named(tmp_path: Path) -> None:
    several = named(tmp_path, "{main: 0, generator: [1, 5], dut: [2, 3]}")
    roles = several._roles(Parameters())
    assert (roles.generators, roles.dut, roles.measuring) == ((1, 5), (2,), (1, 5, 2))
    wiring = Lcores.of(roles, several._spare_cpus(roles)).wiring(roles)
    assert (list(wiring.generator_lcores), list(wiring.dut_lcores)) == ([1, 2], [3])
    one = named(tmp_path, "{main: 0, generator: 1, dut: [2, 3]}")
    assert one._roles(Parameters()).generators == (1,)


def on_cpus(count: int, monkeypatch: pytest.MonkeyPatch) -> LoopbackTestbed:
    monkeypatch.setattr("pollscope.host.cpus.allowed_cpus", lambda: [Cpu(0, 0, core, core) for core in range(count)])
    found = make_testbed("loopback")
    assert isinstance(found, LoopbackTestbed)
    return found


@pytest.mark.parametrize(
    ("cpus", "asked", "generators"),
    [
        pytest.param(2, {}, 1, id="two-cpus"),
        pytest.param(16, {}, 1, id="one-core"),
        pytest.param(16, {"cores": 2}, 1, id="two-cores"),
        pytest.param(16, {"cores": 8}, 4, id="one-per-two-cores"),
        pytest.param(16, {"cores": 7}, 4, id="one-per-two-cores-rounded"),
        pytest.param(16, {"cores": 12}, 3, id="as-many-as-are-free"),
        pytest.param(16, {"cores": 15}, 1, id="the-dut-takes-all"),
        pytest.param(16, {"cores": 8, "flows": 2}, 2, id="no-more-than-flows"),
        pytest.param(64, {"cores": 40}, 8, id="no-more-than-a-generator-has"),
        pytest.param(16, {"cores": 4, "organisation": "scale-up"}, 2, id="with-dispatchers"),
        pytest.param(16, {"cores": 4, "spinning_cores": 2}, 1, id="beside-spinning-cores"),
        pytest.param(16, {"cores": 4, "feed": "infinite"}, 0, id="no-generator"),
        pytest.param(16, {"cores": 4, "generator_sleep": 1000}, 0, id="a-sleeping-one-has-no-cpu"),
    ],
)
def test_a_generator_has_as_many_lcores_as_the_dut_needs_and_the_host_has_cpus(
    cpus: int, asked: dict[str, Any], generators: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    testbed, params = on_cpus(cpus, monkeypatch), Parameters.model_construct(**Parameters().model_dump() | asked)
    roles = testbed._roles(params)
    assert len(roles.generators) == generators
    assert len({*roles.measuring}) == generators + dut_lcores(params)
    wiring = Lcores.of(roles, testbed._spare_cpus(roles), bool(params.generator_sleep)).wiring(roles)
    request = configure_request(params, wiring)
    assert len(request.get("gen", {"lcores": []})["lcores"]) == max(generators, params.generator_sleep > 0)


@pytest.mark.parametrize(
    ("cpus", "said"),
    [
        (
            "{main: 0, generator: [1, 2], dut: [2, 3]}",
            "CPU 2 is named twice: each lcore of generator and DUT needs its own CPU",
        ),
        ("{main: 0, generator: 1, dut: [1]}", "CPU 1 is named twice"),
        ("{main: 0, generator: [], dut: [1]}", "generator"),
        ("{main: 0, generator: [1, 2, 3, 4, 5, 6, 7, 8, 9], dut: [10]}", "generator"),
        ("{main: 0, generator: [one], dut: [1]}", "'one' is not a whole number"),
    ],
)
def test_impossible_cpus_are_refused(tmp_path: Path, cpus: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        named(tmp_path, cpus)
    assert said in str(refused.value)
    assert "mine.yaml" in str(refused.value)
