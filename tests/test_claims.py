# SPDX-License-Identifier: BSD-3-Clause
"""Claims: strict reading, and the verdict of every predicate kind on data that must agree, disagree or stay open."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import synthetic_run as synthetic

from pollscope.accounting import SLICE_ERROR
from pollscope.analysis.claims import Verdict, VerdictKind, evaluate_run, load_claims
from pollscope.analysis.claims.model import Claim, parse_claims
from pollscope.errors import UsageError
from pollscope.run_folder import read_run

AGREES, DISAGREES = VerdictKind.AGREES, VerdictKind.DISAGREES
INCONCLUSIVE, NOT_MEASURABLE = VerdictKind.INCONCLUSIVE, VerdictKind.NOT_MEASURABLE

# Repeats differ by this much of a cycle share, so that intervals are neither zero nor wide.
WOBBLE = (-0.002, 0.0, 0.002)


def claim(**fields: Any) -> Claim:
    whole = {"id": "S-F5.x", "row": "S-F5", "statement": "s", "source": "t", **fields}
    return parse_claims(json.dumps({"paper": None, "claims": [whole]}), "claims.yaml")[0]


def trials_of(useful: Mapping[tuple[int, float], float], wobble: Sequence[float] = WOBBLE) -> list[dict[str, Any]]:
    """Trials with factors (queues, load_of_max) and the given useful share; tax is the rest."""
    return [
        synthetic.trial(
            f"t{number}-{repeat}",
            f"queues={queues},load_of_max={load}",
            repeat,
            {"queues": queues, "load_of_max": load},
            pps=1e6,
            queues=queues,
            useful_share=share + offset,
        )
        for number, ((queues, load), share) in enumerate(useful.items())
        for repeat, offset in enumerate(wobble)
    ]


def judged(tmp_path: Path, trials: Sequence[Mapping[str, Any]], one: Claim, **meta: Any) -> Verdict:
    run = read_run(synthetic.write_run(tmp_path / "run", trials, **meta))
    (verdict,) = evaluate_run(run, [one])
    return verdict


WITHIN = {
    "metric": "tax_share",
    "where": {"load_of_max": 1.0},
    "predicate": {"kind": "within", "low": 0.2, "high": 0.28},
}


@pytest.mark.parametrize(
    ("useful", "kind"),
    [
        ({(1, 1.0): 0.75, (2, 1.0): 0.78}, AGREES),
        ({(1, 1.0): 0.75, (2, 1.0): 0.9}, DISAGREES),
        ({(1, 1.0): 0.75, (2, 1.0): 0.799}, INCONCLUSIVE),
        ({(1, 0.5): 0.75}, NOT_MEASURABLE),
    ],
)
def test_within(tmp_path: Path, useful: dict[tuple[int, float], float], kind: VerdictKind) -> None:
    verdict = judged(tmp_path, trials_of(useful), claim(**WITHIN))
    assert verdict.kind is kind
    assert verdict.finding.sentence.endswith(".")


def test_within_shows_numbers_with_intervals(tmp_path: Path) -> None:
    verdict = judged(tmp_path, trials_of({(1, 1.0): 0.75}), claim(**WITHIN))
    (number,) = verdict.finding.numbers
    assert number.value == pytest.approx(0.25)
    spread, own = 4.302653 * 0.002 / 3**0.5, SLICE_ERROR * 0.7 * 0.25  # of the repeats, and of each empty poll's cost
    assert number.low == pytest.approx(0.25 - math.hypot(spread, own))
    assert number.n == 3
    assert number.label == "queues 1, load 100 %"


TREND = {
    "metric": "tax_share",
    "where": {"load_of_max": {"above": 0.0}},
    "predicate": {"kind": "trend", "factor": "queues", "direction": "falls"},
}


@pytest.mark.parametrize(
    ("useful", "kind"),
    [
        ({(1, 0.5): 0.2, (2, 0.5): 0.3, (4, 0.5): 0.4, (1, 1.0): 0.6, (2, 1.0): 0.7, (4, 1.0): 0.8}, AGREES),
        ({(1, 0.5): 0.4, (2, 0.5): 0.3, (4, 0.5): 0.2, (1, 1.0): 0.8, (2, 1.0): 0.7, (4, 1.0): 0.6}, DISAGREES),
        ({(1, 0.5): 0.2, (2, 0.5): 0.3, (4, 0.5): 0.4, (1, 1.0): 0.8, (2, 1.0): 0.7, (4, 1.0): 0.6}, INCONCLUSIVE),
        ({(1, 0.5): 0.5, (2, 0.5): 0.5, (4, 0.5): 0.5}, DISAGREES),
        ({(1, 0.5): 0.5}, NOT_MEASURABLE),
    ],
    ids=["falls", "rises", "falls and rises", "flat", "one level"],
)
def test_trend(tmp_path: Path, useful: dict[tuple[int, float], float], kind: VerdictKind) -> None:
    assert judged(tmp_path, trials_of(useful), claim(**TREND)).kind is kind


def test_trend_never_compares_groups(tmp_path: Path) -> None:
    # Within each load the tax rises with queues; taken all together it would fall, because loads differ more.
    useful = {(1, 0.2): 0.30, (2, 0.2): 0.28, (2, 0.9): 0.80, (4, 0.9): 0.78}
    assert judged(tmp_path, trials_of(useful), claim(**TREND)).kind is DISAGREES


def poll_trials(polls: Mapping[int, int], repeats: int = 5) -> list[dict[str, Any]]:
    """Trials without traffic whose poll counts are the given ones, give or take 0.1 %."""
    return [
        synthetic.trial(
            f"q{queues}-{repeat}",
            f"queues={queues}",
            repeat,
            {"queues": queues},
            pps=0,
            queues=queues,
            polls=round(count * (1 + (repeat - repeats // 2) * 0.0005)),
        )
        for queues, count in polls.items()
        for repeat in range(repeats)
    ]


RATIO = {
    "metric": "poll_rate_hz",
    "predicate": {"kind": "ratio", "factor": "queues", "from": 1, "to": 512, "low": 0.603, "high": 0.737},
}


@pytest.mark.parametrize(
    ("polls", "kind"),
    [
        ({1: 10_000_000, 512: 6_700_000}, AGREES),
        ({1: 10_000_000, 512: 9_700_000}, DISAGREES),
        ({1: 10_000_000, 512: 7_370_000}, INCONCLUSIVE),
        ({1: 10_000_000, 256: 6_700_000}, NOT_MEASURABLE),
    ],
)
def test_ratio(tmp_path: Path, polls: dict[int, int], kind: VerdictKind) -> None:
    assert judged(tmp_path, poll_trials(polls), claim(**RATIO)).kind is kind


@pytest.mark.parametrize(
    ("polls", "kind"),
    [
        ({1: 1000, 64: 1010, 128: 2000, 512: 4000}, AGREES),
        ({1: 1000, 64: 4000, 128: 3000, 512: 2000}, DISAGREES),
        ({1: 1000, 64: 1010, 128: 1010, 512: 1011}, INCONCLUSIVE),
        ({1: 1000, 64: 1010}, NOT_MEASURABLE),
    ],
)
def test_rises_above(tmp_path: Path, polls: dict[int, int], kind: VerdictKind) -> None:
    one = claim(metric="poll_rate_hz", predicate={"kind": "rises_above", "factor": "queues", "level": 64})
    thousands = {queues: count * 10_000 for queues, count in polls.items()}
    assert judged(tmp_path, poll_trials(thousands), one).kind is kind


@pytest.mark.parametrize(
    ("useful", "kind"),
    [
        ({(1, 0.0): 0.2, (1, 1.0): 0.42, (4, 0.0): 0.2, (4, 1.0): 0.3}, AGREES),
        ({(1, 0.0): 0.2, (1, 1.0): 0.22, (4, 0.0): 0.2, (4, 1.0): 0.21}, DISAGREES),
    ],
)
def test_largest_fall(tmp_path: Path, useful: dict[tuple[int, float], float], kind: VerdictKind) -> None:
    one = claim(
        metric="tax_share", predicate={"kind": "largest_fall", "factor": "load_of_max", "low": 0.2175, "high": 0.3625}
    )
    assert judged(tmp_path, trials_of(useful), one).kind is kind


@pytest.mark.parametrize(
    ("polls", "kind"),
    [
        ({1: 110, 2: 120, 3: 130, 4: 140}, AGREES),
        ({1: 110, 2: 121, 3: 128, 4: 141}, AGREES),  # nearly straight
        ({1: 100, 2: 100, 3: 100, 8: 900}, DISAGREES),  # a knee, of which a line explains 93 %
        ({1: 100, 2: 400, 3: 100, 4: 700}, DISAGREES),
        ({1: 140, 2: 130, 3: 120, 4: 110}, DISAGREES),
        ({1: 100, 2: 200}, NOT_MEASURABLE),
    ],
)
def test_linear(tmp_path: Path, polls: dict[int, int], kind: VerdictKind) -> None:
    one = claim(metric="poll_rate_hz", predicate={"kind": "linear", "factor": "queues", "r_squared": 0.95})
    assert judged(tmp_path, poll_trials({queues: count * 10_000 for queues, count in polls.items()}), one).kind is kind


def test_noise_alone_does_not_bend_a_line(tmp_path: Path) -> None:
    one = claim(metric="tax_share", predicate={"kind": "linear", "factor": "queues", "r_squared": 0.999})
    useful = {(1, 1.0): 0.9, (2, 1.0): 0.79, (3, 1.0): 0.72, (4, 1.0): 0.6}
    assert judged(tmp_path, trials_of(useful, [-0.03, 0.0, 0.03]), one).kind is INCONCLUSIVE
    assert judged(tmp_path / "exact", trials_of(useful, [-0.0001, 0.0, 0.0001]), one).kind is DISAGREES


def test_a_ratio_compares_levels_that_are_words(tmp_path: Path) -> None:
    trials = [
        synthetic.trial(f"{shape}{repeat}", shape, repeat, {"shape": shape}, pps=pps + repeat)
        for shape, pps in (("FB", 1e6), ("SQ", 1e5))
        for repeat in range(3)
    ]
    bounds = {"kind": "ratio", "factor": "shape", "from": "FB", "to": "SQ"}
    assert judged(tmp_path, trials, claim(metric="rx_pps", predicate={**bounds, "high": 0.2})).kind is AGREES
    assert judged(tmp_path, trials, claim(metric="rx_pps", predicate={**bounds, "low": 0.2})).kind is DISAGREES
    other = claim(metric="rx_pps", predicate={**bounds, "to": "NC", "low": 0.2})
    assert judged(tmp_path, trials, other).kind is NOT_MEASURABLE


def test_every_trial_counts_each_one(tmp_path: Path) -> None:
    one = claim(metric="imissed_share", predicate={"kind": "every_trial", "low": 0, "high": 0})
    trials = [synthetic.trial(f"t{repeat}", "p", repeat, {"queues": 1}) for repeat in range(5)]
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


def test_one_value_is_inconclusive(tmp_path: Path) -> None:
    assert judged(tmp_path, trials_of({(1, 1.0): 0.75}, [0.0]), claim(**WITHIN)).kind is INCONCLUSIVE


def test_failed_trials_are_never_data(tmp_path: Path) -> None:
    trials = trials_of({(1, 1.0): 0.75})
    broken = [record | {"status": "failed", "reason": "hung"} for record in trials_of({(2, 1.0): 0.1})]
    for number, record in enumerate(broken):
        record["trial"] = f"broken{number}"
    assert judged(tmp_path, [*trials, *broken], claim(**WITHIN)).kind is AGREES


def test_a_maximum_set_by_the_generator_is_no_full_load(tmp_path: Path) -> None:
    maximum = synthetic.trial("m", "queues=1", 0, {"queues": 1}) | {"kind": "maximum"}
    trials = [maximum, *trials_of({(1, 1.0): 0.75})]
    one = claim(**WITHIN, needs_load=True)
    assert judged(tmp_path / "bound", trials, one).kind is NOT_MEASURABLE
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
    trials = [synthetic.trial(f"t{repeat}", "queues=1", repeat, {"queues": 1}, pps=1e6 + repeat) for repeat in range(3)]
    meta = {"spec": {"name": "synthetic", "parameters": {"saturate": True}}}
    one = claim(metric="tx_pps", needs_load=True, predicate={"kind": "within", "low": 9e5})
    verdict = judged(tmp_path / "bound", trials, one, **meta)
    assert verdict.kind is NOT_MEASURABLE
    assert "the DUT missed 0 %" in verdict.finding.sentence
    for record in trials:
        record["result"]["ports"]["net_crossover0_b"]["stats"]["imissed"] = 10**6
    assert judged(tmp_path / "full", trials, one, **meta).kind is AGREES


def test_only_claims_of_the_runs_rows_are_judged(tmp_path: Path) -> None:
    run = read_run(synthetic.write_run(tmp_path / "run", trials_of({(1, 1.0): 0.75}), row="S-F8", rows=["S-F8"]))
    assert {verdict.claim.row for verdict in evaluate_run(run)} == {"S-F8"}


def test_differences_to_the_paper_are_said(tmp_path: Path) -> None:
    run = read_run(synthetic.write_run(tmp_path / "run", trials_of({(1, 1.0): 0.75})))
    verdict = evaluate_run(run)[0]
    assert any("ConnectX-5" in line and "virtual NIC" in line for line in verdict.differs)
    assert any("8160" in line and "SYNTHETIC CPU" in line for line in verdict.differs)


def test_shipped_claims_cover_their_rows() -> None:
    rows = {one.row for one in load_claims()}
    assert {"S-F5", "S-F6", "S-F8", "S-F9", "S-F10a", "S-F10b", "S-F12", "H-F3b", "H-F3c", "SANITY"} <= rows


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


def test_a_claim_that_is_there_twice_is_refused() -> None:
    fields = {"id": "S-F5.x", "row": "S-F5", "statement": "s", "source": "t", **WITHIN}
    with pytest.raises(UsageError, match="twice"):
        parse_claims(json.dumps({"paper": None, "claims": [fields, fields]}), "claims.yaml")


def test_json_form_is_plain_data(tmp_path: Path) -> None:
    verdict = judged(tmp_path, trials_of({(1, 1.0): 0.75}, [0.0]), claim(**WITHIN))
    plain = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
    assert plain["verdict"] == "inconclusive"
    assert plain["numbers"][0]["low"] is None
