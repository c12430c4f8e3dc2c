# SPDX-License-Identifier: BSD-3-Clause
"""Test claims: strict reading, and the verdict of every kind of predicate on data that agree, disagree or stay open."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import synthetic_run as synthetic
from pydantic import ValidationError

from pollscope.analysis.claims import Verdict, VerdictKind, evaluate_run, load_claims
from pollscope.analysis.claims.model import Claim, claims_of, parse_claims
from pollscope.analysis.claims.numbers import exact, exact_percent, stated
from pollscope.analysis.claims.reasons import anchor, known_reasons, pages
from pollscope.analysis.findings import by_chance
from pollscope.analysis.papers import Paper, load_paper
from pollscope.analysis.saturation import saturated_generator_points
from pollscope.analysis.searches import throughputs
from pollscope.base.errors import UsageError
from pollscope.metrics.accounting import TIMED_INTERVAL_ERROR
from pollscope.spec.predicates import EveryTrial, LargestFall, StatedBounds, Within
from pollscope.stats.estimates import RESOLUTION
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

AGREES, DISAGREES = VerdictKind.AGREES, VerdictKind.DISAGREES
INCONCLUSIVE, NOT_MEASURABLE = VerdictKind.INCONCLUSIVE, VerdictKind.NOT_MEASURABLE

# Repeats differ by this much of a cycle share, so that intervals are neither zero nor wide.
WOBBLE = (-0.002, 0.0, 0.002)


def claim(**fields: Any) -> Claim:
    whole = {"id": "S-F5.x", "row": "S-F5", "statement": "s", "source": "t", **fields}
    return parse_claims(json.dumps({"paper": None, "claims": [whole]}), "claims.yaml")[0]


def trials_of(useful: Mapping[tuple[int, float], float], wobble: Sequence[float] = WOBBLE) -> list[dict[str, Any]]:
    """Return trials with factors (queues, load_of_max) and the given useful share; the rest is tax."""
    return [
        synthetic.trial(
            f"t{number}-{repeat}", f"queues={queues},load_of_max={load}", repeat,
            {"queues": queues, "load_of_max": load}, queues=queues, useful_share=share + offset,
        )
        for number, ((queues, load), share) in enumerate(useful.items())
        for repeat, offset in enumerate(wobble)
    ]  # fmt: skip


def judged(tmp_path: Path, trials: Sequence[Mapping[str, Any]], one: Claim, **meta: Any) -> Verdict:
    (verdict,) = evaluate_run(synthetic.run_of(tmp_path / "run", trials, **meta), [one])
    return verdict


# Kinds whose bounds are written like the values of their metric.
BY_METRIC = (Within, EveryTrial)

WITHIN = {
    "metric": "tax_share",
    "where": {"load_of_max": 1.0},
    "predicate": {"kind": "within", "low": 0.2, "high": 0.28},
}


def poll_trials(polls: Mapping[int, int], repeats: int = 5) -> list[dict[str, Any]]:
    """Return trials without traffic with the given poll counts, +-0.1 %."""
    return [
        synthetic.trial(
            f"q{queues}-{repeat}", f"queues={queues}", repeat, {"queues": queues}, pps=0, queues=queues,
            polls=round(count * (1 + (repeat - repeats // 2) * 0.0005)),
        )
        for queues, count in polls.items()
        for repeat in range(repeats)
    ]  # fmt: skip


TREND = {
    "metric": "tax_share",
    "where": {"load_of_max": {"above": 0.0}},
    "predicate": {"kind": "trend", "factor": "queues", "direction": "falls"},
}
RATIO = {
    "metric": "poll_rate_hz",
    "predicate": {"kind": "ratio", "factor": "queues", "from": 1, "to": 512, "low": 0.603, "high": 0.737},
}
RISES = {"metric": "poll_rate_hz", "predicate": {"kind": "rises_above", "factor": "queues", "level": 64}}
FALL = {
    "metric": "tax_share",
    "predicate": {"kind": "largest_fall", "factor": "load_of_max", "low": 0.2175, "high": 0.3625},
}
LINE = {"metric": "poll_rate_hz", "predicate": {"kind": "linear", "factor": "queues", "r_squared": 0.95}}
FLAT = {(1, 0.5): 0.5, (2, 0.5): 0.5, (4, 0.5): 0.5}


def flat_within(share: float) -> Mapping[str, Any]:
    return {**TREND, "predicate": {**TREND["predicate"], "flat_within": share}}  # type: ignore[dict-item]


# A claim, the useful share by queues and load or the polls by queues (in 10,000), and the verdict.
JUDGED: list[tuple[Mapping[str, Any], Mapping[Any, float], VerdictKind]] = [
    (WITHIN, {(1, 1.0): 0.75, (2, 1.0): 0.78}, AGREES),
    (WITHIN, {(1, 1.0): 0.75, (2, 1.0): 0.9}, DISAGREES),
    (WITHIN, {(1, 1.0): 0.75, (2, 1.0): 0.799}, INCONCLUSIVE),
    (WITHIN, {(1, 0.5): 0.75}, NOT_MEASURABLE),
    (TREND, {(1, 0.5): 0.2, (2, 0.5): 0.3, (4, 0.5): 0.4, (1, 1.0): 0.6, (2, 1.0): 0.7, (4, 1.0): 0.8}, AGREES),
    (TREND, {(1, 0.5): 0.4, (2, 0.5): 0.3, (4, 0.5): 0.2, (1, 1.0): 0.8, (2, 1.0): 0.7, (4, 1.0): 0.6}, DISAGREES),
    (TREND, {(1, 0.5): 0.2, (2, 0.5): 0.3, (4, 0.5): 0.4, (1, 1.0): 0.8, (2, 1.0): 0.7, (4, 1.0): 0.6}, INCONCLUSIVE),
    (TREND, {(1, 0.5): 0.5}, NOT_MEASURABLE),
    # Within each load the tax rises with queues; taken all together it would fall, because loads differ more.
    (TREND, {(1, 0.2): 0.30, (2, 0.2): 0.28, (2, 0.9): 0.80, (4, 0.9): 0.78}, DISAGREES),
    # Repeats alike to 0.2 %; each tax is known to 1.75 %, so the ratio of two to 2.5 %.
    (flat_within(0.05), FLAT, DISAGREES),
    (flat_within(0.01), FLAT, INCONCLUSIVE),
    (RATIO, {1: 1000, 512: 670}, AGREES),
    (RATIO, {1: 1000, 512: 970}, DISAGREES),
    (RATIO, {1: 1000, 512: 737}, INCONCLUSIVE),
    (RATIO, {1: 1000, 256: 670}, NOT_MEASURABLE),
    (RISES, {1: 1000, 64: 1010, 128: 2000, 512: 4000}, AGREES),
    (RISES, {1: 1000, 64: 4000, 128: 3000, 512: 2000}, DISAGREES),
    (RISES, {1: 1000, 64: 1010, 128: 1010, 512: 1011}, INCONCLUSIVE),
    (RISES, {1: 1000, 64: 1010}, NOT_MEASURABLE),
    (FALL, {(1, 0.0): 0.2, (1, 1.0): 0.42, (4, 0.0): 0.2, (4, 1.0): 0.3}, AGREES),
    (FALL, {(1, 0.0): 0.2, (1, 1.0): 0.22, (4, 0.0): 0.2, (4, 1.0): 0.21}, DISAGREES),
    (LINE, {1: 110, 2: 121, 3: 128, 4: 141}, AGREES),  # nearly straight
    (LINE, {1: 100, 2: 400, 3: 100, 4: 700}, DISAGREES),
    (LINE, {1: 100, 2: 100, 3: 100, 8: 900}, DISAGREES),  # a knee, of which a line explains 93 %
    (LINE, {1: 140, 2: 130, 3: 120, 4: 110}, DISAGREES),
    (LINE, {1: 100, 2: 200}, NOT_MEASURABLE),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("fields", "values", "kind"), JUDGED)
def test_verdicts(tmp_path: Path, fields: Mapping[str, Any], values: Mapping[Any, float], kind: VerdictKind) -> None:
    by_load = isinstance(next(iter(values)), tuple)
    trials = trials_of(values) if by_load else poll_trials({at: int(10_000 * polls) for at, polls in values.items()})
    verdict = judged(tmp_path, trials, claim(**fields))
    assert verdict.kind is kind
    assert verdict.finding.sentence.endswith(".")


@pytest.mark.parametrize(("flat", "kind"), [(0.012, AGREES), (0.0145, INCONCLUSIVE), (0.02, DISAGREES)])
def test_a_change_that_is_hardly_one_is_no_trend(tmp_path: Path, flat: float, kind: VerdictKind) -> None:
    """Polls fall from level to level, by 1.5 % in all, which is known to 0.15 %: more than flat, or perhaps not."""
    trials = poll_trials({1: 10_000_000, 2: 9_950_000, 4: 9_900_000, 8: 9_850_000})
    assert judged(tmp_path, trials, claim(**{**flat_within(flat), "metric": "poll_rate_hz", "where": {}})).kind is kind


def test_a_trend_from_nearly_nothing_is_one(tmp_path: Path) -> None:
    """The first level may be zero, so that the last has no ratio to it."""
    trials = trials_of({(1, 0.0): 0.0, (1, 0.5): 0.5, (1, 1.0): 0.9}, (0.0, 0.002, 0.0))
    rises = {"kind": "trend", "factor": "load", "direction": "rises"}
    verdict = judged(tmp_path, trials, claim(metric="useful_share", predicate=rises))
    assert verdict.finding.numbers[0].low is None
    assert verdict.kind is AGREES


def test_agreement_is_an_equivalence_test_at_5_percent(tmp_path: Path) -> None:
    """The 90 % interval lies inside the stated range, the 95 % interval does not."""
    trials = trials_of({(1, 1.0): 0.75})
    (number,) = judged(tmp_path, trials, claim(**WITHIN)).finding.numbers
    assert number.low is not None
    errors = 4.302653 * 0.002 / 3**0.5, TIMED_INTERVAL_ERROR * 0.7 * 0.25, 0.25 * RESOLUTION / 2
    assert (number.n, number.label) == (3, "queues 1, load 100 %")
    assert number.low == pytest.approx(0.25 - math.hypot(*errors))
    low = number.low + 0.2 * (number.value - number.low)
    verdict = judged(tmp_path, trials, claim(**WITHIN | {"predicate": {"kind": "within", "low": low}}))
    assert verdict.kind is AGREES
    assert "Each 90 % interval lies inside (equivalence test at 5 %)." in verdict.finding.sentence


def test_failed_trials_are_never_data(tmp_path: Path) -> None:
    trials = trials_of({(1, 1.0): 0.75})
    broken = [record | {"status": "failed", "reason": "hung"} for record in trials_of({(2, 1.0): 0.1})]
    for number, record in enumerate(broken):
        record["trial"] = f"broken{number}"
    assert judged(tmp_path, [*trials, *broken], claim(**WITHIN)).kind is AGREES


def test_a_ratio_contains_the_errors_of_both_sides(tmp_path: Path) -> None:
    one = claim(metric="tax_share", predicate={"kind": "ratio", "factor": "queues", "from": 1, "to": 2, "high": 0.6})
    verdict = judged(tmp_path, trials_of({(1, 0.5): 0.2, (2, 0.5): 0.6}), one)
    (number,) = verdict.finding.numbers
    assert number.value == pytest.approx(0.5)
    assert number.low is not None and number.high is not None
    own = TIMED_INTERVAL_ERROR * 0.7 * math.sqrt(2) * 0.5
    assert own < (number.high - number.low) / 2 < own + 0.01


@pytest.mark.parametrize(
    ("low", "what"),
    [(0.2505, "about [0-9.]+ times as many trials would decide"), (0.25, "the value lies at the bound itself, so no")],
)
def test_an_effect_at_the_edge_says_what_it_would_take(tmp_path: Path, low: float, what: str) -> None:
    edge = claim(**WITHIN | {"predicate": {"kind": "within", "low": low, "high": 0.9}})
    verdict = judged(tmp_path, trials_of({(1, 1.0): 0.75}), edge)
    assert verdict.kind is INCONCLUSIVE
    assert re.search(rf"The stated end 25.* % lies inside the 90 % interval from .*: {what}", verdict.finding.sentence)


def test_a_weak_disagreement_among_many_claims_stays_open(tmp_path: Path) -> None:
    """A claim that is refuted at 4 % by itself is refuted no more when it was the worst of twenty; a plain one is."""
    run = synthetic.run_of(tmp_path / "run", trials_of({(1, 1.0): 0.75}))

    def within(name: str, low: float) -> Claim:
        return claim(**WITHIN | {"id": f"S-F5.{name}", "predicate": {"kind": "within", "low": low, "high": 0.9}})

    (number,) = evaluate_run(run, [within("first", 0.1)])[0].finding.numbers
    assert number.high is not None
    weak, plain = within("weak", number.high + 0.0005), within("plain", 0.5)
    true = [within(f"true-{k}", 0.1) for k in range(18)]
    alone, among = evaluate_run(run, [weak]), evaluate_run(run, [weak, plain, *true])
    assert [each.kind for each in alone] == [DISAGREES]
    assert [each.kind for each in among] == [INCONCLUSIVE, DISAGREES, *[AGREES] * 18]
    assert "does not stand out among the 20 claims tested" in among[0].finding.sentence
    assert by_chance(among).startswith(
        "20 claims were tested at 5 %: if all were true, chance alone would make up to 1 "
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("falling", "kind"), [(1, INCONCLUSIVE), (2, INCONCLUSIVE), (3, AGREES)])
def test_a_trend_needs_more_groups_than_not(tmp_path: Path, falling: int, kind: VerdictKind) -> None:
    """All groups together are significant even where one or two of four make it; the others move by chance."""
    course = {True: (0.0, 0.1, 0.2, 0.3), False: (0.0, -0.1, 0.1, 0.0)}
    useful = {
        (queues, load): 0.4 + course[number < falling][step]
        for number, load in enumerate((0.25, 0.5, 0.75, 1.0))
        for step, queues in enumerate((1, 2, 4, 8))
    }
    trials = trials_of(useful, [-0.03, -0.02, -0.01, 0.0, 0.01, 0.02, 0.03])
    verdict = judged(tmp_path, trials, claim(**TREND))
    assert f"in {falling} of 4 groups" in verdict.finding.sentence
    assert re.search(r"p (< 0\.0001|= 0\.0[0-4]\d*)", verdict.finding.sentence), verdict.finding.sentence
    assert verdict.kind is kind, verdict.finding.sentence


@pytest.mark.thorough
def test_a_level_is_found_beside_levels_that_are_words(tmp_path: Path) -> None:
    """`frame: [64 B, imix]`: a table's column has one type, so 64 becomes the string "64"."""
    trials = [trial for size in (64, 1500, "imix") for trial in synthetic.repeated({"frame": size})]
    one = {"metric": "rx_pps", "predicate": {"kind": "every_trial", "low": 1.0}}
    for where in ({"frame": 64}, {"frame": "imix"}, {"frame": {"above": 100.0}}):
        assert judged(tmp_path / str(where), trials, claim(where=where, **one)).kind is AGREES
    assert judged(tmp_path / "none", trials, claim(where={"frame": 65}, **one)).kind is NOT_MEASURABLE


def test_factors_that_a_spec_zips_are_one(tmp_path: Path) -> None:
    """Cores with one queue each: the growth is that of both factors, although queues differ as well."""
    points = [{"cores": cores, "queues": cores} for cores in (1, 2)]
    trials = [trial for at in points for trial in synthetic.repeated(at, pps=1e6 * at["cores"], spread=1e-4)]
    one = claim(metric="rx_pps", predicate={"kind": "ratio", "factor": "cores", "from": 1, "to": 2, "low": 1.9})
    zipped = {"spec": {"name": "synthetic", "parameters": {}, "zip": [["cores", "queues"]]}}
    assert judged(tmp_path / "zipped", trials, one, **zipped).kind is AGREES
    assert judged(tmp_path / "crossed", trials, one).kind is NOT_MEASURABLE


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("polls", "kind"), [({1: 0, 2: 10, 4: 77}, AGREES), ({1: 0, 2: 0, 4: 0}, INCONCLUSIVE)], ids=["rises", "stays"]
)
def test_a_trend_from_nothing_on(tmp_path: Path, polls: dict[int, int], kind: VerdictKind) -> None:
    """There is no share of 0: the test alone decides, and the sentence gives both ends."""
    trials = [
        trial for queues, count in polls.items() for trial in synthetic.repeated({"queues": queues}, 5, 1e4 * count)
    ]
    one = claim(metric="rx_pps", predicate={"kind": "trend", "factor": "queues", "direction": "rises"})
    verdict = judged(tmp_path, trials, one)
    assert verdict.kind is kind
    assert "absent" not in verdict.finding.sentence
    assert json.dumps(verdict.to_json(), allow_nan=False)


def test_every_trial_counts_each_one(tmp_path: Path) -> None:
    one = claim(metric="imissed_share", predicate={"kind": "every_trial", "low": 0, "high": 0})
    trials = synthetic.repeated({"queues": 1}, 5)
    assert judged(tmp_path / "a", trials, one).kind is AGREES
    trials[3]["result"]["ports"]["net_crossover0_b"]["stats"]["imissed"] = 1
    verdict = judged(tmp_path / "b", trials, one)
    assert verdict.kind is DISAGREES
    assert "1 of 5 trials" in verdict.finding.sentence


def test_an_absent_metric_is_not_measurable_with_the_reason(tmp_path: Path) -> None:
    one = claim(metric="ipc", predicate={"kind": "within", "low": 2, "high": 2.6})
    verdict = judged(tmp_path, trials_of({(1, 0.5): 0.5}), one)
    assert verdict.kind is NOT_MEASURABLE
    assert synthetic.NO_PMU in verdict.finding.sentence


def test_trials_that_lack_a_metric_by_its_size_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the trials know the metric: they do not stand for the point, however well they agree."""

    def censored(run: RunFolder) -> pd.DataFrame:
        table = current_table(run)
        table.loc[table["repeat"] > 3, "metric.tax_share"] = math.nan
        return table

    trials = trials_of({(1, 1.0): 0.75}, [0.001 * number for number in range(8)])
    assert judged(tmp_path / "whole", trials, claim(**WITHIN)).kind is AGREES
    monkeypatch.setattr("pollscope.analysis.claims.evaluate.current_table", censored)
    verdict = judged(tmp_path / "censored", trials, claim(**WITHIN))
    assert verdict.kind is NOT_MEASURABLE
    assert "the metric is absent in 4 of 8 trials" in verdict.finding.sentence


def test_a_point_without_the_metric_is_said_to_be_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two points has no value at all: the verdict rests on the other one, and says so."""

    def without(run: RunFolder) -> pd.DataFrame:
        table = current_table(run)
        lacks = table["factor.queues"] > 1
        table.loc[lacks, "metric.tax_share"] = math.nan
        table["absent.tax_share"] = table["absent.tax_share"].astype(object).mask(lacks, "it is known too badly")
        return table

    monkeypatch.setattr("pollscope.analysis.claims.evaluate.current_table", without)
    verdict = judged(tmp_path, trials_of({(1, 1.0): 0.75, (2, 1.0): 0.9, (4, 1.0): 0.9}), claim(**WITHIN))
    assert verdict.kind is AGREES
    where = "no trial has the metric at queues=2,load_of_max=1.0 and at 1 further point, because it is known too badly"
    assert where in verdict.finding.sentence


def test_a_maximum_set_by_the_generator_is_no_full_load(tmp_path: Path) -> None:
    maximum = synthetic.trial("m", "queues=1", 0, {"queues": 1}) | {"kind": "maximum"}
    trials = [maximum, *trials_of({(1, 1.0): 0.75})]
    one = claim(**WITHIN, needs_load=True)
    verdict = judged(tmp_path / "bound", trials, one)
    assert verdict.kind is NOT_MEASURABLE
    assert "the maximum is the generator's" in verdict.finding.sentence
    maximum["result"]["ports"]["net_crossover0_b"]["stats"]["imissed"] = 10**6
    assert judged(tmp_path / "full", trials, one).kind is AGREES


def test_a_point_that_did_not_reach_its_load_is_left_out(tmp_path: Path) -> None:
    maximum = synthetic.trial("m", "queues=1", 0, {"queues": 1}, pps=2e6) | {"kind": "maximum"}
    maximum["result"]["ports"]["net_crossover0_b"]["stats"]["imissed"] = 10**6
    verdict = judged(tmp_path, [maximum, *trials_of({(1, 1.0): 0.75})], claim(**WITHIN, needs_load=True))
    assert verdict.kind is NOT_MEASURABLE
    assert "received 50 % of the rate" in verdict.finding.sentence


def test_load_means_the_load_factor_of_the_run(tmp_path: Path) -> None:
    one = claim(metric="rx_pps", where={"load": {"above": 0.0}}, predicate={"kind": "every_trial", "low": 1.0})
    trials = [
        synthetic.trial("t", "p", 0, {"load_pps": 1e6}, pps=1e6),
        synthetic.trial("u", "q", 0, {"load_pps": 0}, pps=0),
    ]
    assert judged(tmp_path, trials, one).kind is AGREES


def test_a_saturated_point_that_misses_nothing_shows_the_generator(tmp_path: Path) -> None:
    trials = synthetic.repeated({"queues": 1}, spread=1e-6)
    meta = {"spec": {"name": "synthetic", "parameters": {"saturate": True}}}
    one = claim(metric="tx_pps", needs_load=True, predicate={"kind": "within", "low": 9e5})
    verdict = judged(tmp_path / "bound", trials, one, **meta)
    assert verdict.kind is NOT_MEASURABLE
    assert "the DUT missed 0 %" in verdict.finding.sentence
    for record in trials:
        record["result"]["ports"]["net_crossover0_b"]["stats"]["imissed"] = 10**6
    assert judged(tmp_path / "full", trials, one, **meta).kind is AGREES


def test_packets_without_room_behind_the_dispatchers_are_missed_by_the_dut(tmp_path: Path) -> None:
    """Dispatchers that keep up with the generator, and a ring that does not: the workers are the limit."""
    meta: dict[str, Any] = {"spec": {"name": "synthetic", "parameters": {"saturate": True}}}
    run = synthetic.run_of(tmp_path / "run", synthetic.repeated({"cores": 1}, spread=1e-6), **meta)
    table = current_table(run)
    assert list(saturated_generator_points(run, table)) == ["cores=1"]
    assert saturated_generator_points(run, table.assign(**{"metric.ring_full_share": 0.4})) == {}


def test_a_row_at_full_load_is_judged_where_the_dut_was_the_limit() -> None:
    """One core's generator cannot saturate many cores: its own rate is no growth, no peak and no loss of theirs."""
    full_load = ("S-F13.below", "S-F16.scale-out", "S-F16.scale-up-", "S-F18.", "S-F7b.", "H-F13.")
    below = "S-F16.scale-up-below-scale-out"  # which a rate that the generator limits only makes harder
    assert [each.id for each in load_claims() if each.id.startswith(full_load) and not each.needs_load] == [below]


def test_a_condition_on_what_a_run_did_not_know_yet_means_the_default(tmp_path: Path) -> None:
    trials = trials_of({(1, 1.0): 0.75})
    one = {"metric": "tax_share_running", "predicate": {"kind": "within", "low": 0.2, "high": 0.3}}
    assert judged(tmp_path / "one", trials, claim(where={"lookups": 1}, **one)).kind is AGREES
    assert judged(tmp_path / "two", trials, claim(where={"lookups": 2}, **one)).kind is NOT_MEASURABLE


VIRTUAL = {"node_hello": {"dpdk": "DPDK 22.11.0", "ports": [{"name": "p", "driver": "net_crossover"}], "absent": {}}}
REAL = {
    "node_hello": {"dpdk": "DPDK 22.11.0", "ports": [{"name": "p", "driver": "mlx5_pci"}], "absent": {}},
    "testbed": {"name": "bench", "kind": "pair"},
}
EMULATED = REAL | {"testbed": {"name": "vm-pair", "kind": "vm-pair", "emulated": True}}
MODEL = REAL | {"testbed": {"name": "model", "kind": "model"}}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("need", ["line", "pcie", "ddio"])
@pytest.mark.parametrize(("meta", "judges"), [(VIRTUAL, False), (EMULATED, False), (MODEL, False), (REAL, True)])
def test_claims_about_hardware_are_not_judged_on_a_virtual_nic(
    tmp_path: Path, need: str, meta: dict[str, Any], judges: bool
) -> None:
    verdict = judged(tmp_path, trials_of({(1, 1.0): 0.75}), claim(**WITHIN, needs=[need]), **meta)
    assert verdict.kind is (AGREES if judges else NOT_MEASURABLE)
    assert judges or verdict.finding.sentence.startswith("The claim is about ")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("rate", "judges"), [(200, False), (10_000, True), (None, True)])
def test_claims_about_cores_that_meet_need_a_link_that_lets_them(
    tmp_path: Path, rate: int | None, judges: bool
) -> None:
    meta = REAL | {"testbed": {"name": "namespaces", "kind": "namespaces", "rate_mbit": rate}}
    verdict = judged(tmp_path, trials_of({(1, 1.0): 0.75}), claim(**WITHIN, needs=["fast-link"]), **meta)
    assert verdict.kind is (AGREES if judges else NOT_MEASURABLE)
    assert judges or "its link of 200 Mbit/s determines completion times, not its cores" in verdict.finding.sentence


def test_a_condition_on_how_notified_cores_wait_leaves_polling_cores_in(tmp_path: Path) -> None:
    """H-F9, H-F12: polling cores stand beside QWAIT that sleeps, though only QWAIT has an idle state."""
    waits = {("spin", "pause"): 0.9, ("qwait", "pause"): 0.3, ("qwait", "sleep"): 0.6}
    trials = [
        record | {"factors": {"notification": notification, "idle": idle}}
        for (notification, idle), useful in waits.items()
        for record in trials_of({(1, 1.0): useful})
    ]
    trials = [
        record | {"trial": f"{record['trial']}-{number}", "point": str(record["factors"])}
        for number, record in enumerate(trials)
    ]
    spec = {"zip": [["notification", "idle"]]}
    predicate = {"kind": "ratio", "factor": "notification", "from": "spin", "to": "qwait", "low": 0.6, "high": 0.75}
    asleep = claim(metric="useful_share", where={"idle": "sleep"}, predicate=predicate)
    assert judged(tmp_path / "asleep", trials, asleep, spec=spec).kind is AGREES
    awake = claim(metric="useful_share", where={"idle": "pause"}, predicate=predicate)
    assert judged(tmp_path / "awake", trials, awake, spec=spec).kind is DISAGREES


def test_emulated_machines_are_no_evidence_for_a_paper(tmp_path: Path) -> None:
    trials = trials_of({(1, 1.0): 0.75})
    of_paper = claim(**WITHIN).model_copy(update={"paper": "socc19"})
    verdict = judged(tmp_path / "paper", trials, of_paper, **EMULATED)
    assert verdict.kind is NOT_MEASURABLE
    assert "times, rates and caches of emulated machines are the emulator's" in verdict.finding.sentence
    assert judged(tmp_path / "real", trials, of_paper, **REAL).kind is AGREES
    assert judged(tmp_path / "own", trials, claim(**WITHIN), **EMULATED).kind is AGREES


def test_flagged_trials_are_reported_and_decide_nothing_alone(tmp_path: Path) -> None:
    trials = trials_of({(1, 1.0): 0.75}, [*WOBBLE, *WOBBLE])
    flagged = [synthetic.disturbed(record) for record in trials]
    few = judged(tmp_path / "few", [*flagged[:2], *trials[2:]], claim(**WITHIN))
    assert few.kind is AGREES
    assert few.finding.sentence.endswith("2 of 6 trials are flagged; without them: agrees.")
    assert (few.to_json()["flagged"], few.to_json()["trials"]) == (2, 6)
    alone = judged(tmp_path / "alone", flagged, claim(**WITHIN))
    assert alone.kind is INCONCLUSIVE
    assert "6 of 6 trials disturbed, and the verdict (agrees) rests on those alone" in alone.finding.sentence
    clean = judged(tmp_path / "clean", trials, claim(**WITHIN))
    assert "flagged" not in clean.finding.sentence
    # All trials of one side are flagged: without them there is nothing to compare.
    sides = poll_trials({1: 10_000_000, 512: 6_700_000})
    worse = [synthetic.disturbed(record) if record["factors"]["queues"] == 512 else record for record in sides]
    verdict = judged(tmp_path / "side", worse, claim(**RATIO))
    assert verdict.kind is INCONCLUSIVE
    assert "5 of 10 trials disturbed, and the verdict (agrees) rests on those alone" in verdict.finding.sentence


def test_a_side_that_is_disturbed_for_the_most_part_decides_nothing(tmp_path: Path) -> None:
    """One clean trial of five at 512 queues: half of all trials are clean, and no ratio comes of them."""
    sides = poll_trials({1: 10_000_000, 512: 6_700_000})
    worse = [
        synthetic.disturbed(record) if record["factors"]["queues"] == 512 and record["repeat"] < 4 else record
        for record in sides
    ]
    verdict = judged(tmp_path, worse, claim(**RATIO))
    assert (verdict.kind, verdict.finding.flagged) == (INCONCLUSIVE, 4)
    assert verdict.finding.sentence.endswith("without them: inconclusive; 4 of 5 at queues 512.")


def test_only_trials_that_a_verdict_rests_on_are_counted(tmp_path: Path) -> None:
    """A ratio of two levels is not made firm by clean trials of the levels between them."""
    trials = poll_trials({1: 10_000_000, 8: 9_000_000, 64: 8_000_000, 128: 7_000_000, 512: 6_700_000})
    ends = [
        synthetic.disturbed(record) if record["factors"]["queues"] in (1, 512) and record["repeat"] < 4 else record
        for record in trials
    ]
    verdict = judged(tmp_path / "ratio", ends, claim(**RATIO))
    assert (verdict.finding.flagged, verdict.finding.trials) == (8, 10)
    assert verdict.kind is INCONCLUSIVE
    assert "8 of 10 trials disturbed" in verdict.finding.sentence
    between = [synthetic.disturbed(record) if record["factors"]["queues"] == 64 else record for record in trials]
    clean = judged(tmp_path / "between", between, claim(**RATIO))
    assert clean.kind is AGREES
    assert (clean.finding.flagged, clean.finding.trials) == (0, 10)


def test_flagged_trials_that_turn_a_verdict_leave_it_open(tmp_path: Path) -> None:
    good = trials_of({(1, 1.0): 0.6}, [-0.001, 0.0, 0.001])
    bad = trials_of({(1, 1.0): 0.78}, [0.0004 * k for k in range(-10, 11)])
    flagged = [synthetic.disturbed(record) | {"trial": f"flagged{number}"} for number, record in enumerate(bad)]
    mixed = [*flagged[:6], good[0], *flagged[6:13], good[1], *flagged[13:19], good[2], *flagged[19:]]
    verdict = judged(tmp_path, mixed, claim(**WITHIN))
    assert verdict.kind is INCONCLUSIVE
    assert verdict.finding.sentence.endswith("21 of 24 trials disturbed; without them: disagrees.")


def test_several_pairs_are_not_one_sample(tmp_path: Path) -> None:
    trials = [
        record | {"trial": f"{pair}-{record['trial']}", "pair": pair}
        for pair, share in (("first", 0.75), ("second", 0.9))
        for record in trials_of({(1, 1.0): share})
    ]
    verdict = judged(tmp_path, trials, claim(**WITHIN))
    assert verdict.kind is DISAGREES, "pooled, the mean of both would lie between and say nothing"
    assert [number.label for number in verdict.finding.numbers] == [
        "pair first, queues 1, load 100 %",
        "pair second, queues 1, load 100 %",
    ]
    one = [record for record in trials if record["pair"] == "first"]
    assert [number.label for number in judged(tmp_path / "one", one, claim(**WITHIN)).finding.numbers] == [
        "queues 1, load 100 %"
    ]


@pytest.mark.parametrize("limited", ["first", "second"])
def test_a_limit_of_one_pair_does_not_apply_to_another(tmp_path: Path, limited: str) -> None:
    """The generator of one pair is its limit, at the same point at which that of the other is not."""
    saturated = [
        record | {"pair": pair, "trial": f"{pair}-{record['trial']}"}
        for pair, pps in (("first", 1e6), ("second", 2e6))
        for record in synthetic.repeated({"queues": 1}, pps=pps)
    ]
    maxima = [
        synthetic.trial(f"{pair}-m", "queues=1", 0, {"queues": 1}) | {"kind": "maximum", "pair": pair}
        for pair in ("first", "second")
    ]
    shares = [
        record | {"pair": pair, "trial": f"{pair}-{record['trial']}"}
        for pair, share in (("first", 0.75), ("second", 0.77))
        for record in trials_of({(1, 1.0): share})
    ]
    for record in (*saturated, *maxima):
        record["result"]["ports"]["net_crossover0_b"]["stats"]["imissed"] = 0 if record["pair"] == limited else 10**6
    pps, tax = (2e6, 0.23) if limited == "first" else (1e6, 0.25)
    meta = {"spec": {"name": "synthetic", "parameters": {"saturate": True}}}
    rate = claim(metric="tx_pps", needs_load=True, predicate={"kind": "within", "low": 9e5})
    verdict = judged(tmp_path / "saturated", saturated, rate, **meta)
    assert [number.value for number in verdict.finding.numbers] == pytest.approx([pps])
    assert verdict.finding.sentence.endswith(f"Only pair {'second' if limited == 'first' else 'first'} has it.")
    verdict = judged(tmp_path / "shares", [*maxima, *shares], claim(**WITHIN, needs_load=True))
    assert [number.value for number in verdict.finding.numbers] == pytest.approx([tax])


def test_searches_of_several_pairs_are_not_one_sample(tmp_path: Path) -> None:
    """Each pair found its own rate; the mean of both is the rate of neither."""
    search = {"outcome": "found", "trials": [], "window_ns": 1e9, "duration_sum_ns": 1e9, "exceed_ratio": 0.5}
    search |= {"width": 0.01, "method": "MLRsearch"}
    records = []
    for pair, pps in (("first", 1e6), ("second", 3e6)):
        goal = {"loss_ratio": 0, "throughput_pps": pps, "lower_pps": pps, "upper_pps": pps, "reason": ""}
        record = synthetic.trial(f"{pair}-m", "queues=1", 0, {"queues": 1})
        records.append(record | {"kind": "maximum", "pair": pair, "search": {**search, "goals": [goal]}})
    found = throughputs(synthetic.run_of(tmp_path / "run", records))
    rates = [each.estimate.value for each in found if each.estimate]
    assert [each.label for each in found] == ["pair first, queues 1", "pair second, queues 1"]
    assert rates == [1e6, 3e6]


def shape_trials(feeds: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        trial
        for (shape, feed), pps in zip(feeds.items(), (1e6, 1e5), strict=True)
        for trial in synthetic.repeated({"shape": shape, "feed": feed}, pps=pps, spread=1e-5)
    ]


def test_feeds_are_not_compared_even_when_zipped(tmp_path: Path) -> None:
    one = claim(metric="rx_pps", predicate={"kind": "ratio", "factor": "shape", "from": "FB", "to": "SQ", "high": 0.2})
    zipped = {"spec": {"name": "synthetic", "parameters": {}, "zip": [["shape", "feed"]]}}
    apart = judged(tmp_path / "apart", shape_trials({"FB": "infinite", "SQ": "wire"}), one, **zipped)
    assert apart.kind is NOT_MEASURABLE
    assert "no pair of points with shape FB and SQ, all else equal" in apart.finding.sentence
    assert judged(tmp_path / "alike", shape_trials({"FB": "wire", "SQ": "wire"}), one, **zipped).kind is AGREES


def test_a_condition_on_a_fixed_parameter_is_held_against_it(tmp_path: Path) -> None:
    one = claim(**WITHIN | {"where": {"load_of_max": 1.0, "hiccup_probability": 0.01}})
    fixed: dict[str, Any] = {"spec": {"name": "synthetic", "parameters": {"hiccup_probability": 0.01}}}
    assert judged(tmp_path / "it", trials_of({(1, 1.0): 0.75}), one, **fixed).kind is AGREES
    fixed["spec"]["parameters"] = {"hiccup_probability": 0.0}
    assert judged(tmp_path / "other", trials_of({(1, 1.0): 0.75}), one, **fixed).kind is NOT_MEASURABLE


LINEAR = {"metric": "tax_share", "predicate": {"kind": "linear", "factor": "queues", "r_squared": 0.9}}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [WITHIN, LINEAR])
def test_repeats_that_luck_could_end_have_wider_intervals(tmp_path: Path, kind: dict[str, Any]) -> None:
    until = {"spec": {"name": "synthetic", "parameters": {}, "repeats": {"count": None, "until": {"metric": "ipc"}}}}
    counted = {"spec": {"name": "synthetic", "parameters": {}, "repeats": {"count": 3, "until": None}}}
    trials = trials_of({(1, 1.0): 0.78, (2, 1.0): 0.77, (4, 1.0): 0.75})
    luck = judged(tmp_path / "until", trials, claim(**kind), **until)
    fixed = judged(tmp_path / "count", trials, claim(**kind), **counted)
    numbers = [verdict.finding.numbers[0] for verdict in (luck, fixed)]
    widths = [each.high - each.low for each in numbers if each.low is not None and each.high is not None]
    assert widths[0] > 1.2 * widths[1]
    assert "intervals have the level 98.5 %" in luck.finding.sentence


@pytest.mark.thorough
def test_a_group_whose_ends_alone_show_a_trend_does_not_show_it(tmp_path: Path) -> None:
    """Useful cycles fall from level to level but for the last one, which lies above the first: no rise."""
    course = {1: 0.50, 2: 0.70, 3: 0.67, 4: 0.64, 5: 0.61, 6: 0.58, 7: 0.55, 8: 0.52}
    useful = {(queues, load): share for load in (0.25, 0.5) for queues, share in course.items()}
    steep = {(queues, 1.0): 0.1 + 0.1 * queues for queues in course}
    verdict = judged(tmp_path, trials_of(useful | steep), claim(**TREND))
    assert "in 1 of 3 groups (load 100 %), flat or the opposite in 0, undecided in 2" in verdict.finding.sentence
    assert verdict.kind is INCONCLUSIVE


def test_a_rise_is_held_against_that_of_another_metric_in_the_same_trials(tmp_path: Path) -> None:
    """Polls and sweeps per second: with one queue their rates rise alike, with eight a sweep has eight polls."""
    trials = poll_trials({1: 1_000_000, 8: 8_000_000})
    predicate = {"kind": "rise_share", "factor": "queues", "from": 1, "to": 8, "beside": "poll_rate_per_queue_hz"}
    none = judged(tmp_path, trials, claim(metric="poll_rate_hz", predicate={**predicate, "low": 1}))
    assert none.kind is INCONCLUSIVE, "the other metric does not rise, so there is no share of its rise"
    half = predicate | {"beside": "poll_rate_running_hz"}
    both = claim(metric="poll_rate_hz", predicate={**half, "low": 0.95, "high": 1.05})
    assert judged(tmp_path / "same", trials, both).kind is AGREES
    absent = claim(metric="poll_rate_hz", predicate={**half, "beside": "ipc", "low": 0.9})
    verdict = judged(tmp_path / "absent", trials, absent)
    assert verdict.kind is NOT_MEASURABLE
    assert "(ipc) is absent" in verdict.finding.sentence


L3FWD = {"workload": "l3fwd-lpm", "frame": 64}


@pytest.mark.parametrize(
    ("row", "done", "said", "same"),
    [
        (
            "S-F5",
            [L3FWD | {"extra_cycles": 400, "feed": "infinite", "rx_desc": 512}],
            (
                "extra work: 0 TSC cycles per packet in the paper, 400 TSC cycles per packet here",
                "feed: wire in the paper, infinite here",
                "RX ring: not stated in the paper, 512 descriptors here",
            ),
            ("frame", "work per packet"),
        ),
        (
            "H-F3a",
            [{"workload": "encap", "encapsulation": "ipip"}],
            ("encapsulation: gre-ipv6 in the paper, ipip here",),
            (),
        ),
        (
            "C-T4",
            [L3FWD | {"lookups": 256, "generator_sleep": 200_000, "trace": "made.pcap"}],
            (
                "look-ups: 1 per packet in the paper, 256 per packet here",
                "sleep of the generator between bursts: 0 ns in the paper, 200,000 ns here",
                "trace: three days of MAWI in the paper, made.pcap here",
            ),
            ("frame", "checksum"),  # a trace has its own frames
        ),
        (
            "S-F5",
            [L3FWD | {"lookups": lookups} for lookups in (16, 1, 4)],
            ("look-ups: 1 per packet in the paper, 1, 4 and 16 per packet here",),
            (),
        ),
    ],
)
def test_deviations_from_the_paper_are_reported(
    tmp_path: Path, row: str, done: list[dict[str, Any]], said: tuple[str, ...], same: tuple[str, ...]
) -> None:
    trials = [each | {"params": done[at % len(done)]} for at, each in enumerate(trials_of({(1, 1.0): 0.75}))]
    lines = evaluate_run(synthetic.run_of(tmp_path / "run", trials, row=row, rows=[row]))[0].differs
    assert set(said) <= set(lines)
    assert not any(line.startswith(same) for line in lines if same), "these are the paper's"
    if row == "S-F5":
        assert any("ConnectX-5" in line and "virtual NIC" in line for line in lines)
        assert any("8160" in line and "SYNTHETIC CPU" in line for line in lines)


def test_the_papers_setup_of_every_judged_row_is_known() -> None:
    for claimed in load_claims():
        if claimed.paper:
            assert claimed.row in load_paper(claimed.paper).setup
    with pytest.raises(ValidationError, match="nothing is said of 'colour'"):
        Paper.model_validate(load_paper("socc19").model_dump() | {"setup": {"S-F5": {"colour": 1}}})


def test_claims_of_rows_are_those_of_all_files() -> None:
    every = load_claims()
    for row in {claim.row for claim in every}:
        assert claims_of([row]) == [claim for claim in every if claim.row == row]
    assert claims_of(["S-F5", "H-F3b"]) == [claim for claim in every if claim.row in ("S-F5", "H-F3b")]
    assert claims_of([]) == claims_of(["X-F1"]) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"metric": "taxes"}, "no metric is called 'taxes'"),
        ({"predicate": {"kind": "is_nice"}}, "predicate"),
        ({"predicate": {"kind": "within", "low": 3, "high": 2}}, "low \\(3"),
        ({"predicate": {"kind": "within"}}, "at least one of low and high"),
        ({"predicate": {"kind": "trend", "factor": "queue", "direction": "falls"}}, "no parameter is called 'queue'"),
        ({"where": {"queues": {"over": 3}}}, "over"),
        ({"surprise": 1}, "surprise"),
        ({"needs": ["numa"]}, "needs"),
        ({"predicate": {"kind": "crosses", "factor": "queues", "across": "form", "of": 1, "over": 2}}, "'form'"),
        (
            {"predicate": {"kind": "rise_share", "factor": "queues", "from": 1, "to": 2, "beside": "x", "low": 1}},
            "no metric is called 'x'",
        ),
        ({"row": "S-F6"}, "does not begin with the row"),
        ({"statement": None}, "statement"),
    ],
)
def test_a_bad_claim_is_one_line_with_file_and_key(change: dict[str, Any], complaint: str) -> None:
    fields = {"id": "S-F5.x", "row": "S-F5", "statement": "s", "source": "t", **WITHIN, **change}
    with pytest.raises(UsageError, match=complaint) as caught:
        parse_claims(json.dumps({"paper": None, "claims": [fields]}), "claims.yaml")
    assert str(caught.value).startswith("claims.yaml:1")
    assert "\n" not in str(caught.value)
    fields = {"id": "S-F5.x", "row": "S-F5", "statement": "s", "source": "t", **WITHIN}
    with pytest.raises(UsageError, match="twice"):
        parse_claims(json.dumps({"paper": None, "claims": [fields, fields]}), "claims.yaml")


def test_stated_bounds_are_those_of_the_claim() -> None:
    """Bounds are not rounded: a value between a bound and its rounded form would fall on the wrong side."""
    judged_by = [each.predicate for each in load_claims()]
    bounded = [each for each in judged_by if isinstance(each, StatedBounds) and not isinstance(each, BY_METRIC)]
    assert len(bounded) > 50
    for each in bounded:
        unit, scale = (exact_percent, 100) if isinstance(each, LargestFall) else (exact, 1)
        said = [float(word) / scale for word in re.findall(r"\d+(?:\.\d+)?", stated(each, unit))]
        assert said == pytest.approx(list(dict.fromkeys(end for end in (each.low, each.high) if end is not None)))


def test_json_form_is_plain_data(tmp_path: Path) -> None:
    verdict = judged(tmp_path, trials_of({(1, 1.0): 0.75}, [0.0]), claim(**WITHIN))
    plain = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
    assert plain["verdict"] == "inconclusive"
    assert plain["numbers"][0]["low"] is None


def test_the_sanity_of_a_testbed_shows_on_a_noisy_host(tmp_path: Path) -> None:
    """A path without loss is one although the host flags every trial; a paper's claim would be inconclusive."""
    trials = [synthetic.disturbed(record) for record in trials_of({(1, 1.0): 0.75}, [*WOBBLE, *WOBBLE])]
    verdict = judged(tmp_path, trials, claim(**WITHIN, row="SANITY", id="SANITY.x"), row="SANITY", rows=["SANITY"])
    assert verdict.kind is AGREES
    assert verdict.finding.flagged == 6


def test_claims_about_a_shared_queue_are_judged_with_bursts_and_single_packets() -> None:
    """The paper does not say how many packets its cores take at once, and the model's answer depends on it."""
    found = {claim.id: claim for claim in load_claims() if claim.row in ("S-F17a", "S-F17b")}
    for name, claim in found.items():
        if not name.endswith("-singly"):
            single = found[f"{name}-singly"]
            assert single.where == {**claim.where, "burst": 1}
            assert (single.metric, single.predicate) == (claim.metric, claim.predicate)


def test_every_row_of_a_paper_has_its_place_in_the_page(checkout: Path) -> None:
    page = (checkout / "docs" / "results.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    anchors = {heading.lower().replace(".", "").replace(" ", "-") for heading in headings}
    rows = {claim.row for claim in load_claims() if claim.paper is not None}
    assert rows == set(known_reasons())
    assert {anchor(row).partition("#")[2] for row in rows} <= anchors
    assert pages(["S-F8", "S-F8", "bursts"]) == [
        "Experiments on S-F8, here and on modelled machines: docs/results.md#socc19"
    ]


@pytest.mark.thorough
def test_an_average_over_some_of_the_levels_decides_nothing(tmp_path: Path) -> None:
    spec = "format: 1\nname: synthetic\ntitle: t\nparameters: {workload: l3fwd-lpm}\nrepeats: {count: 3}\n"
    spec += "factors: {queues: [1, 4], load_of_max: [10 %, 50 %, 90 %, 100 %]}\n"
    predicate = {"kind": "average_ratio", "factor": "queues", "from": 1, "to": 4, "low": 1.5, "high": 2.5}
    one = claim(metric="useful_share", where={"load_of_max": {"at_most": 0.9}}, predicate=predicate)
    whole = {(queues, load): 0.1 * queues**0.5 for queues in (1, 4) for load in (0.1, 0.5, 0.9)}
    few = {place: share for place, share in whole.items() if place[1] != 0.5}
    assert judged(tmp_path / "whole", trials_of(whole), one, spec_text=spec).kind is VerdictKind.AGREES
    found = judged(tmp_path / "few", trials_of(few), one, spec_text=spec)
    assert found.kind is VerdictKind.INCONCLUSIVE
    assert "an average over all levels, and these were not measured: load 50 %." in found.finding.sentence
