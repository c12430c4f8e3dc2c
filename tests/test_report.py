# SPDX-License-Identifier: BSD-3-Clause
"""The report: self-contained, escaped, warnings first; and the comparison of runs."""

import io
import json
import math
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic_run as synthetic
from command_line import pollscope
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from test_figures import poll_trials, tax_trials

from pollscope.analysis.compare import (
    _adjusted,
    _difference,
    compare_levels,
    compare_pairs,
    compare_runs,
    comparison_text,
)
from pollscope.analysis.page import TEMPLATES
from pollscope.analysis.point_values import PointValues
from pollscope.analysis.quality import cautions, drift
from pollscope.analysis.report import report_html
from pollscope.base.errors import UsageError
from pollscope.cli.summary import show_summary
from pollscope.metrics.accounting import TIMED_INTERVAL_ERROR
from pollscope.metrics.derive import COMPUTE
from pollscope.metrics.record import TrialObservations
from pollscope.run.execution import RunOutcome
from pollscope.stats.estimates import RESOLUTION, difference_estimate, difference_p
from pollscope.store.results_table import current_table, derive_table
from pollscope.store.run_folder import RunFolder, read_run

VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}
OWN_SCRIPT = (TEMPLATES / "figures.js").read_text(encoding="utf-8").strip()


class Checker(HTMLParser):
    """Collects ids, references and unbalanced tags."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.text: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.references += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def checked(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    assert checker.open == []
    return checker


def scripts(html: str) -> list[str]:
    """Return the scripts of the page."""
    return [text.strip() for text in re.findall(r"<script[^>]*>(.*?)</script>", html, re.DOTALL)]


def page(tmp_path: Path, trials: list[dict[str, Any]], **meta: Any) -> str:
    return report_html([synthetic.run_of(tmp_path / "run", trials, **meta)])


@pytest.fixture(scope="module")
def tax_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page(tmp_path_factory.mktemp("tax"), tax_trials())


def test_the_page_says_what_limits_each_point(tmp_path: Path) -> None:
    html = page(tmp_path, synthetic.repeated({"queues": 4}, pps=0.0, useful_share=0.0))
    checked(html)
    [shown] = re.findall("<summary>What limits the DUT.*?</details>", html, re.DOTALL)
    assert "(1 point)" in shown
    assert "<td>queues 4</td><td>nothing is sent: the poll rate is limited by the cost of empty polls</td>" in shown
    assert "<b>offered load:</b> nothing is sent" in shown


@pytest.fixture(scope="module")
def page_of_two(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("two")
    host = {"hypervisor": "KVM", "smt": True, "governor": "powersave", "turbo": "on"}
    first = synthetic.run_of(folder / "a", tax_trials(), host=host, warnings=["odd"])
    second = synthetic.run_of(folder / "b", poll_trials(), row="S-F8", rows=["S-F8"], host=host)
    return report_html([first, second])


def test_the_page_is_whole_and_self_contained(page_of_two: str) -> None:
    html = page_of_two
    checker = checked(html)
    assert all(reference.startswith("#") for reference in checker.references)
    assert not re.search(r"url\((?!#|data:)", html)
    assert "@import" not in html
    assert scripts(html) == [OWN_SCRIPT]
    assert len(checker.ids) == len(set(checker.ids)), "ids of several figures do not collide"
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(checker.ids)
    assert html.count("<svg") == 2


def test_the_page_begins_with_the_tally_and_says_once_what_holds_for_all_runs(page_of_two: str) -> None:
    html = page_of_two
    text = re.sub(r"\s+", " ", "".join(checked(html).text))
    counts = r"(\d+ (agrees?|disagrees?|inconclusive|not measurable)[,;]? )+"
    assert re.search(rf"2 runs: {counts}\d+ cautions Findings ", text)
    assert re.search(
        r"\d+ claims were tested at 5 %: if all were true, chance alone would make up to [0-9.]+ disagree", text
    )
    assert text.index("Not measurable here: ") < text.index("Read this first")
    assert html.count("<h1>") == 1
    assert text.count("This host is a virtual machine (KVM)") == 1
    assert html.count(f"<dt>absent, because {synthetic.NO_PMU}</dt>") == 1
    assert "noted by the run (S-F5)" in text
    assert text.index("noted by the run") < text.index("This host is a virtual machine")


@pytest.mark.thorough
def test_points_are_sorted_by_level_with_a_column_for_each_factor(tmp_path: Path) -> None:
    html = page(tmp_path, list(reversed(tax_trials())))
    table = html[html.index("Cycles by point") : html.index("Rates by point")]
    heads = re.findall(r'<th scope="col">([^<]+)</th>', table)
    points = [tuple(re.findall(r"<td>([^<]*)</td>", row)) for row in table.split("<tr>")[2:]]
    assert heads == ["queues", "load"]
    assert points == [(queues, load) for queues in "12" for load in ("0 %", "50 %", "100 %")]


def test_metric_names_lead_to_their_definition(tax_page: str) -> None:
    checker = checked(tax_page)
    targets = {reference[1:] for reference in checker.references}
    assert "metric-tax_share" in targets
    assert targets <= set(checker.ids)
    assert tax_page.count("(empty_poll + loop + instrumentation) / total") == 1


def test_findings_and_one_figure_come_first_then_cautions(tmp_path: Path) -> None:
    html = page(tmp_path, tax_trials(), warnings=["the baseline moved by 12 %"], status="interrupted")
    marks = [html.index(mark) for mark in ("cautions</a>", "Findings", "<svg", "Read this first", "Verdicts")]
    assert marks == sorted(marks)
    assert html.count("<svg") == 1
    for said in ("the baseline moved by 12 %.", "The run is interrupted", "virtual NIC"):
        assert said in html


@pytest.mark.thorough
def test_cautions_are_one_line_per_topic_with_a_count(tmp_path: Path) -> None:
    html = page(tmp_path, tax_trials(), warnings=["first", "second"])
    assert "<summary><b>noted by the run</b> (2)</summary>" in html
    assert html.count("<b>noted by the run</b>") == 1


def test_numbers_verdicts_and_absences_are_there(tax_page: str) -> None:
    tables = [f"{what} by point (6 points)" for what in ("Cycles", "Latency", "Loss")]
    words = ("S-F5.tax-at-full-load", *tables, f"absent, because {synthetic.NO_PMU}", "SYNTHETIC CPU")
    assert [word for word in words if word not in tax_page] == []


@pytest.mark.thorough
def test_a_run_without_data_gives_a_page_that_says_so(tmp_path: Path) -> None:
    html = page(tmp_path, [record | {"status": "failed", "reason": "hung"} for record in tax_trials()])
    assert "18 of 18 trials failed and are no data: hung (18 such)" in html
    assert "not measurable here" in html
    checked(html)


def test_an_empty_run_gives_a_page(tmp_path: Path) -> None:
    checked(page(tmp_path, [], status="running"))


def _topics(tmp_path: Path, trials: list[dict[str, Any]], **meta: Any) -> dict[str, str]:
    run = synthetic.run_of(tmp_path / "run", trials, **meta)
    return {caution.topic: caution.text for caution in cautions(run, current_table(run))}


@pytest.mark.thorough
def test_a_reason_that_many_trials_share_is_said_once(tmp_path: Path) -> None:
    trials = tax_trials()
    trials[:5] = [synthetic.disturbed(trial) for trial in trials[:5]]
    # Further reasons of one trial do not change the sentence about the reason that all share.
    trials[2]["host"]["steal_ticks"] = 10**6
    text = _topics(tmp_path, trials)["noisy trials"]
    assert text.startswith("5 of 18 trials are flagged")
    assert text.count("waited for its CPU") == 1
    assert "(5 such)" in text


def test_cautions_state_numbers(tmp_path: Path) -> None:
    trials = tax_trials()
    trials[0] = synthetic.disturbed(trials[0])
    generator = trials[13]["result"]["gen"]["lcores"][0]
    generator |= {"unsent": generator["intended"] // 2}
    host = {"hypervisor": "KVM", "smt": True, "governor": "powersave", "turbo": "on"}
    noise = [{"cpu": 1, "duration_ns": 10**9, "over_100us": 50, "longest_ns": 4_000_000}]
    topics = _topics(tmp_path, trials, host=host, noise=noise)
    assert "1 of 18 trials is flagged" in topics["noisy trials"]
    assert "lcore 2 waited for its CPU for 25 % of the trial" in topics["noisy trials"]
    assert "% unsent" in topics["generator"]
    assert "50 times per second" in topics["host noise"]
    assert "KVM" in topics["virtual machine"]
    order = ["noisy trials", "host noise", "generator", "not measured", "virtual machine", "SMT", "governor", "turbo"]
    assert [topic for topic in topics if topic in order] == order, "the disturbed first, the host last"
    assert "virtual NIC" in topics


def test_values_that_a_guest_does_not_show_are_absent_with_the_reason(tmp_path: Path) -> None:
    host = {"hypervisor": "KVM", "smt": False, "governor": {"absent": "no cpufreq driver"}}
    topics = _topics(tmp_path, tax_trials(), host=host | {"turbo": {"absent": "no cpufreq driver shows it"}})
    assert "The host shows no frequency governor (no cpufreq driver)" in topics["governor"]
    assert topics["turbo"] == "Whether turbo is on is not known: no cpufreq driver shows it."
    assert topics["SMT"].startswith("The guest sees no SMT")


def test_noise_of_a_pair_says_on_which_host(tmp_path: Path) -> None:
    """Both hosts have a CPU 1."""
    gaps = {"lcore": 1, "cpu": 1, "duration_ns": 500_000_000, "over_100us": 30, "longest_ns": 100_400_000}
    topics = _topics(tmp_path, tax_trials(), noise=[{"role": role, **gaps} for role in ("generator", "DUT")])
    each = "CPU 1 60 times per second (longest 100 ms)"
    assert f"generator {each}, DUT {each}." in topics["host noise"]


def _timed(growth: float, noise: float, seed: int, points: int = 4, repeats: int = 6) -> list[dict[str, Any]]:
    """Return repeats in random order over 60 minutes, during which the DUT's rate grows by `growth`."""
    rng = np.random.default_rng(seed)
    trials: list[dict[str, Any]] = []
    for repeat in range(repeats):
        for point in rng.permutation(points):
            minute = 60 * len(trials) / (points * repeats - 1)
            rate = 1e6 * (1 + int(point)) * (1 + growth * minute / 60 + rng.normal(0, noise))
            name, queues = f"measure:queues={point}:{repeat}", int(point) + 1
            record = synthetic.trial(name, f"queues={point}", repeat, {"queues": queues}, pps=rate)
            record["started_utc"] = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)).isoformat()
            trials.append(record)
    return trials


def test_a_drift_over_the_run_is_reported_with_its_size(tmp_path: Path) -> None:
    text = _topics(tmp_path, _timed(0.1, 0.005, seed=1))["drift"]
    assert re.search(
        r"rose by (9\.\d|10) % over the 1 h 0 min of the run \(repeats of 4 points, Mann-Kendall p < 0\.0001\)", text
    )


def test_a_value_falls_by_at_most_itself(tmp_path: Path) -> None:
    """The value falls to a fourteenth of its start, which is 170 % of its median."""
    run = synthetic.run_of(tmp_path / "run", _timed(-0.93, 0.005, seed=3))
    found = drift(run, _with_rates_of(run, derive_table(run)), "rx_pps")
    assert found is not None
    assert -1 < found.move < -0.7


def _with_rates_of(run: RunFolder, table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of a run that differs only in its rates."""
    rates = {record["trial"]: COMPUTE["rx_pps"](TrialObservations(record)) for record in run.trials}
    return table.assign(**{"metric.rx_pps": table["trial"].map(rates)})


def test_a_run_without_drift_is_not_warned_of(tmp_path: Path) -> None:
    runs = [synthetic.run_of(tmp_path / f"{seed}", _timed(0.0, 0.05, seed, 2, 5)) for seed in range(15)]
    table = derive_table(runs[0])
    found = [drift(run, _with_rates_of(run, table), "rx_pps") for run in runs]
    assert sum(each is not None for each in found) <= 2  # 1 % of 15; more than 2 once in 2000 such tests


def test_a_pair_that_comes_later_is_no_drift(tmp_path: Path) -> None:
    """The second machine is twice as fast and measures its repeats behind those of the first."""
    trials = _timed(0.0, 0.01, 1, points=1, repeats=20)
    for number, record in enumerate(trials):
        record["pair"] = "first" if number < 10 else "second"
        for counter in ("rx_packets", "tx_packets"):
            record["result"]["dut"]["lcores"][0][counter] *= 1 if number < 10 else 2
    run = synthetic.run_of(tmp_path / "run", trials)
    assert drift(run, _with_rates_of(run, derive_table(run)), "rx_pps") is None
    for record in trials:
        del record["pair"]
    pooled = synthetic.run_of(tmp_path / "pooled", trials)
    assert drift(pooled, _with_rates_of(pooled, derive_table(pooled)), "rx_pps") is not None


def test_a_warm_up_in_the_window_is_reported_once_with_the_number_of_trials(tmp_path: Path) -> None:
    trials = tax_trials()
    for record in trials[:3]:
        series = record["result"]["dut"]["lcores"][0]["series"]
        sweeps = enumerate(series["sweeps"])
        series["sweeps"] = [each // (2 if part < 8 else 1) + 7 * part % 11 for part, each in sweeps]
    text = _topics(tmp_path, trials, title="t")["warm-up"]
    assert text.startswith(f"In 3 of 18 trials; the first, {trials[0]['trial']}: the warm-up had not ended: in the ")
    screen = io.StringIO()
    show_summary(RunOutcome(tmp_path / "run", 18, 0, 0, {}, ["first"]), Console(file=screen, width=300))
    assert f"warning: first\nwarning: warm-up: {text}\n" in screen.getvalue()
    assert "18 trials ok, 0 flagged, 0 failed\n" in screen.getvalue()
    show_summary(RunOutcome(tmp_path / "run", 0, 18, 0, {}, []), Console(file=screen, width=300))
    assert "none failed; all 18 are flagged (noise)\n" in screen.getvalue()


@pytest.mark.thorough
def test_the_table_of_a_run_fits_the_screen_with_whole_names(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", tax_trials(), title="t")
    outcome = RunOutcome(tmp_path / "run", 18, 0, 0, {}, [])

    def shown(width: int, *columns: str) -> str:
        screen = io.StringIO()
        show_summary(outcome, Console(file=screen, width=width), columns)
        return screen.getvalue()

    narrow = shown(80)
    head = narrow.splitlines()[2]
    assert "rx_pps" in head and "…" not in narrow
    assert all(len(line) <= 80 for line in narrow.splitlines() if line.startswith("│"))
    left = re.search(r"not shown: (.*) \(--columns NAME", narrow)
    assert left and "loss_share" in left[1] and "loss_share" not in head
    assert "not shown" not in shown(300)
    assert "loss_share" in shown(80, "loss_share").splitlines()[2]


def test_a_quiet_machine_gets_no_false_alarm(tmp_path: Path) -> None:
    host = {"hypervisor": "none", "smt": False, "governor": "performance", "turbo": "off"}
    hello = {"tsc_hz": synthetic.TSC_HZ, "ports": [{"driver": "mlx5_pci"}], "absent": {}}
    assert _topics(tmp_path, tax_trials(), host=host, node_hello=hello) == {}


@pytest.mark.thorough
def test_a_cost_that_the_spec_adds_is_named(tmp_path: Path) -> None:
    trials = tax_trials()
    for trial in trials:
        trial["params"] = {"extra_cycles": 400.0}
    assert "400 TSC cycles" in _topics(tmp_path, trials)["added cost"]


def test_two_modes_are_named(tmp_path: Path) -> None:
    shares = [0.3 + 0.001 * number for number in range(6)] + [0.6 + 0.001 * number for number in range(6)]
    trials = [
        synthetic.trial(f"t{number}", "p", number, {"queues": 1}, useful_share=share)
        for number, share in enumerate(shares)
    ]
    assert "6 values lie around" in _topics(tmp_path, trials)["two modes"]


def test_runs_are_compared_point_by_point(tmp_path: Path) -> None:
    trials = poll_trials()
    polls = [record["result"]["dut"]["lcores"][0]["polls"] for record in trials]
    for own, record in zip(polls, trials, strict=True):
        own["empty"] = round(own["empty"] * (1 + record["repeat"] / 1e6))  # equal repeats would show no noise
    slow = synthetic.write_run(tmp_path / "slow", trials, run_id="slow")
    for own in polls:
        own["empty"] *= 2
    fast = synthetic.write_run(tmp_path / "fast", trials, run_id="fast")
    found = compare_runs(read_run(slow), read_run(fast), ["poll_rate_hz"])
    assert len(found) == 11
    assert all(each.beyond_noise and each.ratio.value == pytest.approx(2) for each in found)
    text = comparison_text(found)
    assert "11 of 11 differences exceed noise" in text
    assert "1 of 1 difference exceeds noise" in comparison_text(found[:1])
    same = compare_runs(read_run(slow), read_run(slow), ["poll_rate_hz"])
    assert not any(each.beyond_noise for each in same)


@given(
    sides=st.lists(st.lists(st.floats(0.1, 10), min_size=2, max_size=6), min_size=2, max_size=2),
    error=st.sampled_from([0.0, 0.05, 1.0]),
)
@example(sides=[[2.0, 1.5, 3.75], [5.0, 5.0, 7.0]], error=0.0)
def test_a_difference_beyond_noise_has_an_interval_without_0(sides: list[list[float]], error: float) -> None:
    first, second = sides
    change, p = difference_estimate(first, second, error), difference_p(first, second, error)
    assert 0 <= p <= 1
    if not 0.049 < p < 0.051:
        assert (p < 0.05) == (not change.low <= 0 <= change.high)


def test_losses_that_differ_a_hundredfold_keep_their_mark(tmp_path: Path) -> None:
    """The ratio of 38 % to 0.1 % has no interval; the difference has one."""
    lost, kept = PointValues({}, (0.0005, 0.001, 0.0015)), PointValues({}, (0.37, 0.38, 0.39))
    found = _adjusted([_difference("loss_share", "p", ("A", "B"), lost, kept)])
    assert found[0].beyond_noise
    text = comparison_text(found)
    assert "+37.9 points (35.4 points to 40.4 points)" in text
    assert text.splitlines()[1].endswith("*")


def test_counts_of_a_comparison_do_not_contradict_each_other() -> None:
    rng = np.random.default_rng(1)
    pairs = [[PointValues({}, tuple(rng.normal(level, 1, 5))) for level in (0.1, 0.1 + at)] for at in range(8)]
    found = _adjusted([_difference("tx_pps", f"{at}", ("A", "B"), *both) for at, both in enumerate(pairs)])
    marked = sum(each.beyond_noise for each in found)
    alone = sum(not each.change.low <= 0 <= each.change.high for each in found)
    assert 0 < marked <= alone
    text = comparison_text(found)
    assert f"{marked} of 8 differences exceed noise" in text
    assert f"Without the correction, {alone} of 8 would" in text
    assert "corrected for the 8 tested differences of this comparison" in text


def test_levels_are_compared_with_the_first(tmp_path: Path) -> None:
    run = synthetic.run_of(tmp_path / "run", tax_trials())
    found = compare_levels(run, "load_of_max", ["tax_share"])
    assert [(each.point, each.first_name, each.second_name) for each in found][:2] == [
        ("queues 1", "load_of_max 0 %", "load_of_max 50 %"),
        ("queues 1", "load_of_max 0 %", "load_of_max 100 %"),
    ]
    with pytest.raises(UsageError, match="its factors: queues, load_of_max"):
        compare_levels(run, "burst", None)
    with pytest.raises(UsageError, match="no metric is called"):
        compare_levels(run, "queues", ["nonsense"])


def test_the_first_level_is_compared_with_all_others_and_its_trials_count_once(tmp_path: Path) -> None:
    trials = [synthetic.disturbed(record) for record in tax_trials() if record["factors"]["queues"] == 1]
    measured = [record for record in trials if record["kind"] == "measure"]
    run = synthetic.run_of(tmp_path / "run", trials)
    text = comparison_text(compare_levels(run, "load_of_max", ["tax_share"]))
    assert f"{len(measured)} of {len(measured)} trials (tax_share) are flagged." in text


def test_pairs_are_compared_by_baselines_with_the_trials_own_errors(tmp_path: Path) -> None:
    """The second pair has half the tax of the first, by its own measure: what a trial does not know is scaled alike."""
    trials = [
        synthetic.trial(
            f"{kind}:{pair}:{repeat}", "p", repeat, {"queues": 1, "pair": pair},
            useful_share=useful + 1e-7 * repeat * (kind == "measure"),
        ) | {"kind": kind, "pair": pair}
        for pair, useful in (("a", 0.2), ("b", 0.6))
        for repeat in range(3)
        for kind in ("baseline", "measure")
    ]  # fmt: skip
    run = synthetic.run_of(tmp_path / "run", trials)
    (found,) = compare_pairs(run, ["tax_share"])
    assert found.relative
    own = math.hypot(TIMED_INTERVAL_ERROR * 0.7, RESOLUTION / 2)
    for side in (found.first, found.second):
        assert (side.value, (side.high - side.low) / 2) == pytest.approx((1, own), rel=1e-4)
    assert (found.ratio.high - found.ratio.low) / 2 == pytest.approx(math.sqrt(2) * own, rel=1e-4)


def test_commands_end_to_end(tmp_path: Path) -> None:
    run = synthetic.write_run(tmp_path / "run", tax_trials())
    one, other = (synthetic.write_run(tmp_path / name, [synthetic.trial()]) for name in ("one", "other"))
    done = pollscope("report", one, cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, str(one / "report.html"))
    assert (one / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    verdicts = json.loads(pollscope("claims", run, "--json", cwd=tmp_path).stdout)
    names = ("tax-at-full-load", "tax-falls-with-queues", "falls-with-work")
    assert {verdict["claim"] for verdict in verdicts} == {f"S-F5.{name}" for name in names}
    assert "What differs from the paper's experiment:" in pollscope("claims", run, cwd=tmp_path).stdout
    several = pollscope("report", one, other, cwd=tmp_path)
    assert several.stdout.strip() == "report.html"
