# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope explain` on runs that are limited on purpose: real trials on the virtual NIC, each with one limit."""

from pathlib import Path

import pytest
from command_line import pollscope

from pollscope.analysis.explain import RuleOutcome, explain_run
from pollscope.metrics.accounting import WOULD_TELL
from pollscope.store.results_table import derive_table, flags_of
from pollscope.store.run_folder import read_run

pytestmark = pytest.mark.measure

HOST = "host takes the core"
SPEC = """\
format: 1
name: limited
title: Limited on purpose
testbeds: [loopback]
parameters: {{ {parameters} }}
trial: {{warmup: 50 ms, window: 200 ms, drain: 10 ms}}
repeats: {{count: 5}}
noise: {{max_waiting: 10 %, max_switches_per_s: 10000, max_gaps_over_100us_per_s: 1000}}
"""
# Each limit, and the parameters that cause it.
LIMITED = {
    "cores": ("core cycles", "saturate: true, feed: infinite, workload: l3fwd-lpm"),
    "extra work": ("core cycles", "saturate: true, extra_cycles: 5000 cycles, rx_desc: 4096"),
    "a worker behind a dispatcher": (
        "core cycles",
        "saturate: true, feed: infinite, organisation: scale-up, extra_cycles: 2000 cycles",
    ),
    # With a burst of 32 the lock is free for half of the time on a machine whose CPUs are near.
    "a lock between two cores": (
        "shared queue",
        "saturate: true, feed: infinite, organisation: locked, cores: 2, workload: io, burst: 4",
    ),
    "512 queues of which one has packets": (
        "sweep over the queues",
        "saturate: true, workload: io, shape: SQ, queues: 512, rx_desc: 256, generator_receives: false",
    ),
    # 150 packets come in a pause, and 64 descriptors are there.
    "a ring shorter than a pause": (
        "RX ring",
        "load_pps: 500 kpps, workload: io, rx_desc: 64, hiccup_probability: 0.1 %, hiccup_delay: 300 us",
    ),
    "a generator that sends one by one": (
        "generator",
        "saturate: true, workload: drop, generator_burst: 1, rx_desc: 4096",
    ),
    "a light load": ("offered load", "load_pps: 20 kpps, rx_desc: 4096"),
}


@pytest.mark.parametrize(
    "what",
    [each if each == "cores" else pytest.param(each, marks=pytest.mark.thorough) for each in LIMITED],
)
def test_a_run_that_is_limited_on_purpose_names_its_limit(
    what: str, build_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, parameters = LIMITED[what]
    monkeypatch.setenv("POLLSCOPE_NODE", str(build_dir / "pollscope-node"))
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "limited.yaml").write_text(SPEC.format(parameters=parameters))
    done = pollscope("run", "limited.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [folder] = (tmp_path / "results" / "limited").iterdir()
    run = read_run(folder)
    table = derive_table(run)
    [found] = explain_run(run, table)
    limits = {finding.stage for finding in found.of(RuleOutcome.LIMITS)}
    print(found.label, found.summary, found.of(RuleOutcome.LIMITS, RuleOutcome.OPEN))
    # If timed intervals miss the window, `explain` gives findings that hold in spite of that; noise repeats the run.
    noisy = [flag["text"] for flags in flags_of(table) for flag in flags[:1] if flag["name"].startswith("noise:")]
    if len(noisy) > found.trials / 3:
        pytest.skip(f"noise in {len(noisy)} of {found.trials} trials, in the first: {noisy[0]}; {found.summary}")
    # A wrong limit is never named. Where the host makes trials disagree, the right one is named as a possible one.
    assert limits - {HOST} <= {expected}
    for finding in found.of(RuleOutcome.ABSENT):
        if finding.stage == expected and WOULD_TELL in finding.evidence[0]:
            pytest.skip(f"the tax of so short a window is not known well enough: {finding.evidence[0]}")
    assert expected in {finding.stage for finding in found.of(RuleOutcome.LIMITS, RuleOutcome.OPEN)}
