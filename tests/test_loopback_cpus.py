# SPDX-License-Identifier: BSD-3-Clause
"""Test CPUs that the file of a loopback testbed names."""

from pathlib import Path

import pytest

from pollscope.base.errors import UsageError
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
