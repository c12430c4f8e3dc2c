# SPDX-License-Identifier: BSD-3-Clause
"""Testbeds of kinds that pollscope does not come with: one that only computes, and one that hands its trials on."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from command_line import Done
from run_helpers import Cli

KINDS = '''\
"""No node, no hugepages, no host."""

import time
from typing import Literal

from pollscope.base.errors import HostError
from pollscope.testbeds.base import Testbed, TestbedConfig


class SumConfig(TestbedConfig):
    kind: Literal["sum"]
    seconds: float = 0.0
    fails_at: str = ""
    away_at: str = ""


class SumTestbed(Testbed):
    kind, config_model, modelled = "sum", SumConfig, True

    def refusal(self, point):
        return "no more than 100 queues are summed up" if point.params.queues > 100 else None

    def measure(self, trial, attempt):
        time.sleep(self.config.seconds)
        if trial.point.id == self.config.away_at:
            raise HostError("there is no more paper")
        record = self.begun(trial, attempt)
        if trial.point.id == self.config.fails_at and not attempt:
            return record.failed("a slip of the pen", final=True)
        lcore = {"lcore": 1, "cpu": 0, "rx_packets": 1000 * trial.point.params.queues, "tx_packets": 0}
        window = {"start_tsc": 0, "end_tsc": trial.window_ns, "tsc_hz": 1_000_000_000}
        return record.having(result={"state": "done", "window": window, "dut": {"lcores": [lcore]}})


class DeskConfig(TestbedConfig):
    kind: Literal["desks"]


class DesksTestbed(Testbed):
    kind, config_model, modelled = "desks", DeskConfig, True

    def __init__(self, file, config):
        super().__init__(file, config)
        self._desks = [SumTestbed(file.with_name(name), SumConfig(kind="sum")) for name in ("left", "right")]

    @property
    def parts(self):
        return self._desks

    def refusal(self, point):
        return self._desks[0].refusal(point)

    def measure(self, trial, attempt):
        return next(desk for desk in self._desks if desk.name == trial.pair).measure(trial, attempt)
'''
REGISTERED = """\
import sys
sys.path.insert(0, {folder!r})
from pollscope.base import names
names.TESTBEDS = {{**names.TESTBEDS, "sum": "kinds:SumTestbed", "desks": "kinds:DesksTestbed"}}
from pollscope.cli import main
main()
"""
SPEC = """\
format: 1
name: sums
row: S-F8
title: t
testbeds: [sum, desks]
parameters: {load_pps: 0}
factors:
  queues: [1, 10, 100, 1000]
trial: {warmup: 0 ms, window: 100 ms, drain: 0 ms}
repeats: {count: 2}
order: {randomise: false}
"""


@dataclass
class OwnCli(Cli):
    """The command line with both kinds registered; there is no node program."""

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", REGISTERED.format(folder=str(self.folder)), *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(words, cwd=self.folder, env=self.environment, text=True, **pipes)  # type: ignore[call-overload, no-any-return]

    def __call__(self, *arguments: str | Path) -> Done:
        """Run in a process of its own, which knows the two kinds."""
        process = self.start(*arguments)
        out, err = process.communicate()
        assert "Traceback" not in err, err
        return Done(process.returncode, out, err)

    def testbed(self, **keys: object) -> Path:
        path = self.folder / "own.yaml"
        path.write_text(json.dumps({"kind": "sum", **keys}))
        return path


@pytest.fixture
def cli(tmp_path: Path) -> OwnCli:
    (tmp_path / "kinds.py").write_text(KINDS)
    return OwnCli(tmp_path, node=tmp_path / "there-is-no-node")


def test_a_testbed_that_computes_runs_a_spec(cli: OwnCli) -> None:
    cli.ends(1, "run", cli.spec(SPEC), "--testbed", cli.testbed(fails_at="queues=10"))
    run = cli.only_run()
    assert run.meta["testbed"]["kind"] == "sum"
    assert (run.meta["node_hello"], run.meta["maxima"], run.meta["knobs_after"]) == (None, {}, {})
    assert [(each["point"], each["reason"]) for each in run.meta["left_out"]] == [
        ("queues=1000", "no more than 100 queues are summed up")
    ]
    failed = [trial["reason"] for trial in run.trials if trial["status"] == "failed"]
    assert failed == ["a slip of the pen"] * 2
    assert not run.host_checks
    cli.ran("--resume", run.path, "--testbed", run.meta["testbed"]["file"])
    table = pd.read_parquet(run.path / "results.parquet")
    assert table["modelled"].all()
    assert dict(zip(table["factor.queues"], table["metric.rx_pps"], strict=True)) == {1: 1e4, 10: 1e5, 100: 1e6}


@pytest.mark.thorough
def test_its_run_folder_is_read_like_any_other(cli: OwnCli) -> None:
    cli.ends(0, "run", cli.spec(SPEC), "--testbed", cli.testbed())
    (folder,) = cli.run_folders()
    page = cli.folder / "page.html"
    reader = Cli(cli.folder)  # this process does not know the kind
    for command in (("report", folder, "--out", page), ("claims", folder), ("figures", folder, "--out", "drawn")):
        done = reader(*command)
        assert done.returncode == 0, done.stderr
    assert "modelled" in page.read_text()
    shown = reader("compare", folder, "--by", "queues", "--metric", "rx_pps")
    assert shown.returncode == 0, shown.stderr


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("keys", "setting", "reason"),
    [
        ({}, "knobs={governor: performance}", "no host with knobs: governor"),
        ({}, "collectors=[{name: perf, required: true}]", "collector perf cannot work here: a testbed of kind sum has"),
        ({"away_at": "queues=10"}, "order.seed=2", "there is no more paper"),
        ({"colour": "red"}, "order.seed=2", "own.yaml:1: colour: unknown key; allowed: kind, seconds, fails_at"),
        ({}, "testbeds=[loopback]", "not meant for a testbed of kind 'sum'"),
        ({}, "testbeds=[abacus]", "allowed: loopback, vm-pair, pair, pairs, model, namespaces, sum, desks"),
        ({"kind": ["sum"]}, "order.seed=2", "kind is ['sum']"),
        ({}, "factors.queues=[1000]", "no point is left: no more than 100 queues"),
    ],
)
def test_an_unsupported_request_is_refused_in_one_line(
    cli: OwnCli, keys: dict[str, object], setting: str, reason: str
) -> None:
    done = cli("run", cli.spec(SPEC), "--testbed", cli.testbed(**keys), "--set", setting)
    assert done.returncode in (2, 3)
    assert reason in done.stderr.splitlines()[-1]


@pytest.mark.thorough
def test_a_testbed_that_hands_trials_on(cli: OwnCli) -> None:
    run = cli.ran(cli.spec(SPEC), "--testbed", cli.testbed(kind="desks"))
    assert Counter((trial["pair"], trial["testbed"]) for trial in run.trials) == {
        ("left", "left"): 3,
        ("right", "right"): 3,
    }
    planned = cli("plan", cli.spec(SPEC), "--testbed", cli.testbed(kind="desks"), "--json")
    assert [each["testbed"] for each in json.loads(planned.stdout)] == ["own left", "own right"]
    status = cli("testbed", "status", cli.testbed())
    assert (status.returncode, status.stdout.split(": ")[1].strip()) == (0, "ready")
