# SPDX-License-Identifier: BSD-3-Clause
"""Test runs in which several features meet, with faults in between, and check invariants.

Six rows hold every pair of the eight features with, and without, each other (a covering array of strength two), each
with faults of its own. With `--crossings 30` hypothesis draws so many others for each row instead: one in CI (`make
fuzz`), 30 at night.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command_line import Done
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from played_hosts import PlayedHosts

from pollscope.analysis.claims import evaluate_run
from pollscope.analysis.report import report_html
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder, read_run

sys.path.append(str(Path(__file__).parent / "knobs"))
from knob_tree import Tree

FEATURES = ("pairs", "resume", "search", "corunner", "collectors", "knobs", "repeats", "drift")
# Row 0 has none. Two features stand together in one of the five other rows, and each without the other in another:
# their rows are two sets of three out of five, which meet, and neither of which holds the other.
ROWS_OF = dict(zip(FEATURES, combinations(range(1, 6), 3), strict=False))
COVERING = [frozenset(name for name in FEATURES if row in ROWS_OF[name]) for row in range(6)]
# Number of a start -> fault at that start, in the rows that are resumed.
CHOSEN = {1: ((3, "SIGKILL"), (6, "nan")), 2: ((4, "SIGINT"), (7, "noisy")), 4: ((2, "refuse"), (5, "SIGTERM"))}
FAULTS = ("die", "refuse", "give-up", "garbage", "nan", "noisy", "SIGINT", "SIGTERM", "SIGKILL")
# `make fuzz`, which the CI of a commit runs as well, and `make test-all` take all rows.
IN_MAKE_TEST = 4
MOST_RESUMES = 5
LEAVE_S = 10.0


@dataclass(frozen=True)
class Crossing:
    """The features of a run, and number of a start -> what happens then."""

    features: frozenset[str]
    faults: tuple[tuple[int, str], ...]

    def has(self, name: str) -> bool:
        return name in self.features

    @property
    def spec(self) -> str:
        pairs, search, knobs = self.has("pairs"), self.has("search"), self.has("knobs")
        factors: dict[str, Any] = {"burst": [32] if knobs else [8, 32]}
        factors |= {"corunner": ["none", "matmul"]} if self.has("corunner") else {}
        factors |= {"knob.governor": ["performance", "powersave"]} if knobs else {}
        factors |= {"load_of_max": ["50 %"]} if search else {}
        count = {"count": 4 if pairs and self.has("repeats") else 2}
        until = {"until": {"metric": "rx_pps", "within": "5 %", "at_least": 2, "at_most": 3}}
        whole: dict[str, Any] = {
            "format": 1,
            "name": "crossing",
            "row": "S-F5",
            "title": "features that meet",
            "testbeds": ["loopback", "pair"],
            "parameters": {"generator_receives": search} | ({} if search else {"load_pps": 100_000}),
            "factors": factors,
            # The generator of a pair starts a little after its DUT.
            "trial": {"warmup": "200 ms" if pairs else "1 ms", "window": "5 ms", "drain": "0 ms"},
            "repeats": until if self.has("repeats") and not pairs else count,
            "order": {"seed": 7},
        }
        if search:
            method = {
                "method": "mlrsearch",
                "repeats": 1,
                "width": "30 %",
                "duration_sum": "5 ms",
                "loss_ratios": ["0 %"],
            }
            whole["maximum"] = method
        if self.has("collectors"):
            whole["collectors"] = [{"name": "kernel-load", "interval": "10 ms"}]
        if self.has("drift"):
            point = {name: levels[0] for name, levels in factors.items()}
            whole["baseline"] = {"point": point, "metric": "rx_pps", "every": 3}
        return json.dumps(whole)


def hosts_of(crossing: Crossing, folder: Path, tree: Tree) -> tuple[PlayedHosts, Path]:
    hosts = PlayedHosts(folder, {str(number): what for number, what in crossing.faults})
    hosts.capacity_pps = 100_000 if crossing.has("search") else None
    if crossing.has("pairs"):
        roots = {"first": str(tree.root), "second": str(Tree(folder / "other").root)}
        return hosts, hosts.pairs(*roots, dut={name: {"knob_root": root} for name, root in roots.items()})
    return hosts, hosts.loopback(knob_root=str(tree.root))


def check_code(done: Done, run: RunFolder, fired: set[str]) -> None:
    """Check that the exit code agrees with the run folder."""
    failed = [trial for trial, record in last_attempts(run).items() if record["status"] == "failed"]
    status = run.meta["status"]
    if "SIGKILL" in fired:
        assert done.returncode == -9
        assert status in ("running", "interrupted", "failed", "complete")
    elif fired & {"SIGINT", "SIGTERM"}:
        assert (done.returncode, status) == (130, "interrupted"), done.stderr
        assert "interrupted" in done.stderr.splitlines()[-1]
    elif failed:
        assert (done.returncode, status) == (1, "failed"), done.stderr
    else:
        assert (done.returncode, status) == (0, "complete"), done.stderr


def last_attempts(run: RunFolder) -> dict[str, dict[str, Any]]:
    return {record["trial"]: record for record in run.trials}


def check_records(run: RunFolder, before: RunFolder | None) -> None:
    """Check that no record was lost and that all records are whole."""
    if before is not None:
        assert run.trials[: len(before.trials)] == before.trials
        assert run.host_checks[: len(before.host_checks)] == before.host_checks
    for record in run.trials:
        assert record["status"] in ("ok", "flagged", "failed")
        if record["status"] == "failed":
            assert record["reason"]
        elif "samples" in record:
            recorded = sum(each["samples"] for each in record["collectors"].values())
            assert len(pd.read_parquet(run.path / record["samples"])) == recorded
    attempts = Counter((record["trial"], record["attempt"]) for record in run.trials)
    assert set(attempts.values()) <= {1}


def check_complete(run: RunFolder) -> None:
    """Check that every planned trial is there exactly once as data, and that the table has a row for each."""
    good = Counter(record["trial"] for record in run.trials if record["status"] != "failed")
    assert good == Counter(run.meta["plan"])
    assert not [path for path in run.path.rglob("*") if path.name.startswith(".") or path.suffix == ".tmp"]
    table = current_table(run)
    records = last_attempts(run)
    assert set(table["trial"]) == set(records) and len(table) == len(records)
    for trial, status in zip(table["trial"], table["status"], strict=True):
        assert status == records[trial]["status"]
    baselines = table[table["kind"] == "baseline"]["trial"].tolist()
    assert baselines == [trial for trial in records if trial.startswith("baseline")], "in the order of measurement"


def check_same(run: RunFolder, reference: RunFolder) -> None:
    """Check that a run with faults and a run without are the same experiment."""
    steps = [trial for trial in run.meta["plan"] if not trial.startswith("search:")]
    others = [trial for trial in reference.meta["plan"] if not trial.startswith("search:")]
    assert [trial for trial in steps if trial in others] == others
    if run.meta["spec"]["repeats"].get("until") is None:  # a trial that failed leaves an interval wide: a further round
        assert set(run.meta["plan"]) == set(reference.meta["plan"])
    assert run.meta["left_out"] == reference.meta["left_out"]
    assert run.meta["maxima"] == reference.meta["maxima"]
    mine, theirs = last_attempts(run), last_attempts(reference)
    for trial in theirs:
        for key in ("params", "factors", "kind", "repeat", "point"):
            assert mine[trial][key] == theirs[trial][key]
        assert mine[trial].get("start", {}).get("rate") == theirs[trial].get("start", {}).get("rate")


def check_pages(run: RunFolder) -> None:
    """Check that report and claims are rendered from any state of the run."""
    assert evaluate_run(run)
    assert "<html" in report_html([run])


def check_left(hosts: PlayedHosts, tree: Tree, picture: dict[str, bytes]) -> None:
    """Check that knobs are restored and no node runs."""
    deadline = time.monotonic() + LEAVE_S
    while (alive := hosts.alive()) and time.monotonic() < deadline:
        time.sleep(0.05)  # one whose runner was killed notices that its input is closed
    assert alive == []
    assert tree.picture() == picture


def fired(hosts: PlayedHosts, since: int) -> tuple[set[str], int]:
    """Return the faults that happened since so many starts, and how many starts there are now."""
    starts = sum(each["cmd"] == "start" and not each["corunner"] for each in hosts.requests())
    return {what for number, what in hosts.faults.items() if since < int(number) <= starts}, starts


def cross(crossing: Crossing, folder: Path) -> None:
    tree = Tree(folder / "tree")
    picture = tree.picture()
    hosts, testbed = hosts_of(crossing, folder, tree)
    spec = hosts.spec(crossing.spec)
    done = hosts("run", spec, "--testbed", testbed)
    before, starts, planned = None, 0, hosts.run().meta["plan"]
    for _ in range(MOST_RESUMES):
        happened, starts = fired(hosts, starts)
        run = read_run(hosts.run_folder())
        check_code(done, run, happened)
        check_records(run, before)
        if "SIGKILL" not in happened:
            check_left(hosts, tree, picture)
        if done.returncode == 0:
            break
        before = run
        done = hosts.resume("--restore-first")
    else:
        raise AssertionError(f"not complete after {MOST_RESUMES} resumes: {done.stderr}")
    check_complete(run)
    check_pages(run)
    assert [trial for trial in run.meta["plan"] if trial in planned] == planned
    if not crossing.faults or crossing.has("pairs"):  # which take long
        return
    alone, testbed = hosts_of(Crossing(crossing.features, ()), folder / "reference", tree)
    assert alone("run", alone.spec(crossing.spec), "--testbed", testbed).returncode == 0
    check_same(run, read_run(alone.run_folder()))


def crossed(crossing: Crossing) -> None:
    with tempfile.TemporaryDirectory(prefix="crossing-") as folder:
        cross(crossing, Path(folder))


def faults(features: frozenset[str]) -> st.SearchStrategy[tuple[tuple[int, str], ...]]:
    """Draw up to two faults, and at least one if a run is to be resumed."""
    fault = st.tuples(st.integers(1, 10), st.sampled_from(FAULTS))
    least, most = (1, 2) if "resume" in features else (0, 0)
    return st.lists(fault, min_size=least, max_size=most, unique_by=lambda each: each[0]).map(tuple)


def test_further_faults_are_drawn_in_ci_and_at_night(checkout: Path) -> None:
    plan = ["make", "--no-print-directory", "-n", "fuzz", "VENV=V", "PYTEST_FLAGS="]
    made = subprocess.run(plan, cwd=checkout, capture_output=True, text=True, check=True)
    assert re.search(r"^V/pytest\s+tests/test_crossings.py --crossings 1$", made.stdout, re.MULTILINE)
    assert " CROSSINGS=30 " in (checkout / ".ci/run").read_text()


def test_the_rows_cover_every_pair() -> None:
    for one, other in combinations(FEATURES, 2):
        assert {(one in row, other in row) for row in COVERING} == {
            (a, b) for a in (True, False) for b in (True, False)
        }


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "row",
    [row if row == IN_MAKE_TEST else pytest.param(row, marks=pytest.mark.thorough) for row in range(len(COVERING))],
)
def test_every_pair_of_features_meets(row: int, pytestconfig: pytest.Config) -> None:
    further = pytestconfig.getoption("crossings")
    if not further:
        crossed(Crossing(COVERING[row], CHOSEN.get(row, ())))
        return
    drawn = settings(max_examples=further, deadline=None, suppress_health_check=list(HealthCheck))
    drawn(given(faults(COVERING[row]).map(lambda some: Crossing(COVERING[row], some)))(crossed))()
