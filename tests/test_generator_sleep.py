# SPDX-License-Identifier: BSD-3-Clause
"""Test a generator that sleeps between bursts, on the CPU of a core of the DUT (`generator_sleep`)."""

import os
from pathlib import Path
from typing import Any

import pytest
from dut_node import DUT_LCORE, configuration, running_node
from run_helpers import Cli

from pollscope.host.placement import Roles
from pollscope.store.results_table import current_table
from pollscope.testbeds.loopback import Lcores

SLEEPER_LCORE = 4
LCORES = f"0@0,1@0,{DUT_LCORE}@1,3@0,{SLEEPER_LCORE}@1"
SLEEP_NS, BURST = 200_000, 256


def classes(pid: int) -> set[int]:
    return {os.sched_getscheduler(int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir()}


@pytest.mark.measure
def test_it_leaves_the_cpu_to_the_dut_and_goes_first_when_it_wakes(build_dir: Path, tmp_path: Path) -> None:
    """Bursts leave on time although the DUT's lcore never yields, and frames come back meanwhile."""
    generator: dict[str, Any] = {"lcores": [SLEEPER_LCORE], "burst": BURST, "sleep_ns": SLEEP_NS}
    with running_node(build_dir, tmp_path / "log", lcores=LCORES) as node:
        node.get("configure", **configuration(workload="l3fwd-lpm", gen=generator))
        assert os.SCHED_FIFO in classes(node.process.pid)
        result = node.trial(window_s=0.2, rate={"saturate": True})
        node.get("configure", **configuration(gen={"lcores": [SLEEPER_LCORE]}))
        assert classes(node.process.pid) == {os.SCHED_OTHER}
    (sender,), (worker,) = result["gen"]["lcores"], result["dut"]["lcores"]
    bursts = 0.2 / (SLEEP_NS / 1e9)
    assert 0.5 * bursts * BURST < sender["sent"] <= bursts * BURST
    assert worker["rx_packets"] > 0.5 * sender["sent"]
    assert sender["total"]["rx_packets"] > 0.5 * sender["total"]["sent"]


def test_it_has_an_lcore_but_no_cpu_of_its_own() -> None:
    roles = Roles(main=1, generators=(), dut=(0, 1))
    places = Lcores.of(roles, [], sleeps=True)
    assert places.eal == "0@1,1@0,2@1,3@0"
    wiring = places.wiring(roles)
    assert (list(wiring.generator_lcores), list(wiring.dut_lcores)) == ([3], [1, 2])


SHARED = """\
format: 1
name: shared
row: C-RIVALS
title: t
parameters:
  {saturate: true, cores: 2, lookups: 256, generator_sleep: 200 us, generator_burst: 256, flows: 8}
factors: {organisation: [corec, scale-out], queues: [1, 2]}
zip: [[organisation, queues]]
trial: {warmup: 50 ms, window: 100 ms, drain: 50 ms}
repeats: {count: 1}
noise: {max_waiting: 100 %}
"""


@pytest.mark.thorough
@pytest.mark.measure
def test_two_cpus_take_two_cores_and_a_generator(tmp_path: Path, build_dir: Path) -> None:
    """A generator without its own CPU measures packet order for two cores at one queue and with one queue each."""
    (tmp_path / "nodes").touch()
    cli = Cli(tmp_path, build_dir / "pollscope-node")
    done = cli("run", cli.spec(SHARED))
    assert done.returncode == 0, done.stderr
    table = current_table(cli.only_run())
    for metric in ("tx_pps", "core_imbalance", "posted_bytes", "reordered_share"):
        assert table[f"metric.{metric}"].notna().all(), metric
    assert 0 <= table.set_index("factor.organisation")["metric.claim_lost_fraction"]["corec"] < 1
    assert (table["metric.core_imbalance"] < 1).all(), "both cores took packets"


@pytest.mark.parametrize("testbed", ["model-skylake", "model-hyperplane"])
def test_other_testbeds_say_that_theirs_has_its_own_cpu(tmp_path: Path, build_dir: Path, testbed: str) -> None:
    cli = Cli(tmp_path, build_dir / "pollscope-node")
    done = cli("plan", cli.spec(f"testbeds: [model]\n{SHARED}"), "--testbed", testbed)
    assert "generator_sleep: only on loopback" in done.stdout + done.stderr
