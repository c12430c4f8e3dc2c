# SPDX-License-Identifier: BSD-3-Clause
"""Check every predicate on made-up samples whose truth is known: how often its verdict is wrong.

Each property draws a situation (levels, repeats, noise, true values), makes many data sets of it and counts wrong
verdicts. A wrong *agrees* or *disagrees* is allowed in 5 % of cases; *inconclusive* is never wrong, so each kind is
also shown to be able to decide.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from pollscope.analysis.claims.contrasts import _geometric_mean
from pollscope.analysis.claims.evaluate import _controlled
from pollscope.analysis.claims.model import Claim
from pollscope.analysis.claims.predicates import JUDGES, judge
from pollscope.analysis.claims.verdict import Finding, Verdict, VerdictKind
from pollscope.analysis.point_values import Level, PointValues
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.spec.predicates import (
    AverageRatio,
    Crosses,
    Dips,
    EveryTrial,
    Growth,
    LargestFall,
    Linear,
    Peak,
    Predicate,
    Ratio,
    RatioOfRatios,
    RisesAbove,
    RiseShare,
    SteeperKnee,
    TrendOver,
    Within,
)
from pollscope.stats.estimates import CONFIDENCE, STOPPED_CONFIDENCE, mean_estimate, stopping_half_width

AGREES, DISAGREES = VerdictKind.AGREES, VerdictKind.DISAGREES
DATA_SETS = 150
# 5 %, and the share that 150 draws of 5 % exceed once in about ten thousand times (binomial).
MOST_WRONG = 20
# The same of more cases, for an interval that covers 92 % at worst if nothing is done about it.
STOPS = 1200
MOST_STOPS_OUTSIDE = 80
METRIC = metric_dictionary()["tx_pps"]
# Of as many data sets, those of which a plain case decides.
LEAST_RIGHT = 140

Truth = Mapping[tuple[Level, ...], float]
FACTORS, SHAPES = ("queues", "cores"), ("queues", "shape")
LEVELS = (1, 2, 4, 8)


def some(test: Callable[..., None]) -> Callable[..., None]:
    """Return a few situations, always the same: a rate that is tested again and again fails by chance some day."""
    slow = [HealthCheck.too_slow]
    few = max(2, settings().max_examples // 30)
    return settings(max_examples=few, derandomize=True, deadline=None, suppress_health_check=slow)(test)


def drawn(
    names: Sequence[str],
    truth: Truth,
    repeats: int,
    noise: float,
    rng: np.random.Generator,
    beside: Truth | None = None,
) -> list[PointValues]:
    """Return samples at these levels, normal around the truth, with a second metric of the same noise."""

    def around(value: float) -> tuple[float, ...]:
        return tuple(value * (1 + noise * rng.standard_normal(repeats)))

    return [
        PointValues(dict(zip(names, at, strict=True)), around(value), beside=around(beside[at]) if beside else ())
        for at, value in truth.items()
    ]


def counted(
    predicate: Predicate, make: Callable[[np.random.Generator], list[PointValues]], seed: int
) -> dict[VerdictKind, int]:
    """Return how often each verdict came out."""
    rng = np.random.default_rng(seed)
    kinds = [judge(predicate, make(rng), METRIC).kind for _ in range(DATA_SETS)]
    return {kind: kinds.count(kind) for kind in VerdictKind}


class Situation(NamedTuple):
    """Say how often each point was measured and with which noise."""

    repeats: int
    noise: float
    seed: int

    def of(
        self, predicate: Predicate, truth: Truth, names: Sequence[str] = FACTORS, beside: Truth | None = None
    ) -> dict[VerdictKind, int]:
        return counted(predicate, lambda rng: drawn(names, truth, self.repeats, self.noise, rng, beside), self.seed)

    def never(
        self, predicate: Predicate, truth: Truth, *wrong: VerdictKind, names: Sequence[str] = FACTORS, **more: Truth
    ) -> None:
        """Check that these verdicts come out no more often than is allowed."""
        found = self.of(predicate, truth, names, **more)
        assert max(found[kind] for kind in wrong) <= MOST_WRONG

    def plain(
        self, predicate: Predicate, truth: Truth, right: VerdictKind = AGREES, names: Sequence[str] = FACTORS,
        noise: float = 0.003, **more: Truth,
    ) -> None:  # fmt: skip
        """Check that with little noise this verdict comes out."""
        assert self._replace(noise=noise).of(predicate, truth, names, **more)[right] >= LEAST_RIGHT


def over(levels: Sequence[Level], value: Callable[[float], float], groups: Sequence[float] = (1.0,)) -> Truth:
    """Return the truth over queues in groups of cores, each at its own height."""
    return {(level, core): height * value(float(level)) for core, height in enumerate(groups) for level in levels}


def shapes(values: Mapping[str, Callable[[float], float]], levels: Sequence[int] = LEVELS) -> Truth:
    return {(level, shape): value(level) for shape, value in values.items() for level in levels}


NOISE, SEEDS = st.sampled_from([0.003, 0.02, 0.08]), st.integers(0, 2**31)
SITUATION = st.builds(Situation, st.integers(3, 7), NOISE, SEEDS)
HEIGHTS = st.lists(st.sampled_from([0.3, 1.0, 5.0]), min_size=1, max_size=5)
BOTH = (AGREES, DISAGREES)


def test_every_kind_has_its_truths_here() -> None:
    tested = {kind.__name__ for kind in JUDGES if any(f"{kind.__name__}:" in (test.__doc__ or "") for test in TESTS)}
    assert tested == {kind.__name__ for kind in JUDGES}


@pytest.mark.thorough
@some
@given(SITUATION, HEIGHTS, st.sampled_from(["rises", "falls"]))
def test_no_trend(situation: Situation, heights: list[float], direction: str) -> None:
    """TrendOver: data without a trend agree with none."""
    predicate = TrendOver.model_validate({"kind": "trend", "factor": "queues", "direction": direction})
    situation.never(predicate, over(LEVELS, lambda _: 1e6, heights), AGREES)


FALLS = TrendOver(kind="trend", factor="queues", direction="falls")


@some
@given(SITUATION, st.sampled_from(["rises", "falls"]))
def test_a_change_of_just_the_flat_range_is_no_trend(situation: Situation, direction: str) -> None:
    """The last level lies at the end of the flat range, so that nothing is more than flat."""
    predicate = TrendOver.model_validate({"kind": "trend", "factor": "queues", "direction": direction})
    change = predicate.flat_within * (1 if direction == "rises" else -1)
    truth = over(LEVELS, lambda level: 1e6 * (1 + change * math.log2(level) / 3))
    situation.never(predicate, truth, AGREES)


@pytest.mark.thorough
@some
@given(SITUATION)
def test_a_trend_of_one_group_in_four(situation: Situation) -> None:
    """One group that falls by half does not speak for three that do not move."""
    falling = over(LEVELS, lambda level: 1e6 * (1 - 0.06 * (level - 1)))
    situation.never(FALLS, {**over(LEVELS, lambda _: 1e6, [1.0] * 4), **falling}, AGREES)


@some
@given(SITUATION, HEIGHTS, st.floats(0.05, 0.6))
def test_a_trend(situation: Situation, heights: list[float], change: float) -> None:
    """An existing trend is not denied, and is found if it stands out."""
    found = situation.of(FALLS, over(LEVELS, lambda level: 1e6 * (1 - change * math.log2(level) / 3), heights))
    assert found[DISAGREES] <= MOST_WRONG
    assert found[AGREES] >= DATA_SETS - MOST_WRONG or change <= 10 * situation.noise


@pytest.mark.thorough
@some
@given(SITUATION, HEIGHTS)
def test_within(situation: Situation, heights: list[float]) -> None:
    """Within: means on the bound are not outside however many there are, one beyond it is not inside."""
    truth = over(LEVELS, lambda _: 1e6, [1.0] * len(heights))
    situation.never(Within(kind="within", low=1e6, high=3e6), truth, *BOTH)
    situation.plain(Within(kind="within", low=2e5, high=3e6), truth)


@pytest.mark.thorough
@some
@given(SITUATION)
def test_every_trial(situation: Situation) -> None:
    """EveryTrial: accept exactly the value of the trials."""
    rng = np.random.default_rng(situation.seed)
    for _ in range(20):
        found = drawn(FACTORS, over(LEVELS, lambda _: 1e6), situation.repeats, situation.noise, rng)
        least = min(value for sample in found for value in sample.values)
        assert judge(EveryTrial(kind="every_trial", low=least), found, METRIC).kind is AGREES
        assert judge(EveryTrial(kind="every_trial", low=least * 1.0000001), found, METRIC).kind is DISAGREES


@some
@given(SITUATION, HEIGHTS, st.floats(0.3, 3))
def test_ratio(situation: Situation, heights: list[float], ratio: float) -> None:
    """Ratio: one that is the bound itself is neither inside nor outside, in however many groups."""
    truth = over((1, 8), lambda level: 1e6 * (ratio if level == 8 else 1), heights)
    situation.never(Ratio(kind="ratio", factor="queues", first=1, last=8, low=ratio), truth, *BOTH)
    clear = Ratio(kind="ratio", factor="queues", first=1, last=8, low=ratio * 0.9, high=ratio * 1.1)
    situation.plain(clear, truth)


@pytest.mark.thorough
@some
@given(SITUATION, st.integers(2, 10))
def test_largest_fall(situation: Situation, groups: int) -> None:
    """LargestFall: choosing the largest of many equal falls makes it no larger."""
    truth = over((0, 1), lambda level: 1e6 * (1 - 0.2 * level), [1.0] * groups)
    # The truth is 20 % everywhere: a claim of more is wrong, and one of 20 % at least is not.
    situation.never(LargestFall(kind="largest_fall", factor="queues", low=0.2001), truth, AGREES)
    situation.never(LargestFall(kind="largest_fall", factor="queues", high=0.2), truth, DISAGREES)
    situation.never(LargestFall(kind="largest_fall", factor="queues", low=0.2), truth, DISAGREES)


def test_largest_fall_decides() -> None:
    truth = over((0, 1), lambda level: 1e6 * (1 - 0.2 * level), [1.0] * 3)
    predicate = LargestFall(kind="largest_fall", factor="queues", low=0.15, high=0.25)
    Situation(5, 0.005, 1).plain(predicate, truth, noise=0.005)


@pytest.mark.thorough
@some
@given(SITUATION)
def test_rises_above(situation: Situation) -> None:
    """RisesAbove: flat data do not rise, rising ones are not denied, though the highest below was chosen."""
    predicate = RisesAbove(kind="rises_above", factor="queues", level=8)
    levels = (1, 2, 4, 8, 16, 32)
    situation.never(predicate, over(levels, lambda _: 1e6), AGREES)
    rising = over(levels, lambda level: 1e6 * (1 if level <= 8 else 1 + 0.01 * level / 16))
    situation.never(predicate, rising, DISAGREES)
    situation.never(predicate, over(levels, lambda level: 1e6 * (2 if level == 2 else max(1.0, level / 20))), AGREES)
    situation.plain(predicate, over(levels, lambda level: 1e6 * max(1.0, level / 8)))


@pytest.mark.thorough
@some
@given(st.builds(Situation, st.integers(4, 7), NOISE, SEEDS))
def test_linear(situation: Situation) -> None:
    """Linear: a straight line is not denied, a flat one or a knee does not pass for one."""
    levels = (1, 100, 200, 300, 400, 500)
    predicate = Linear(kind="linear", factor="queues", r_squared=0.95)
    straight = over(levels, lambda level: 1e6 * (1 + level / 250))
    situation.never(predicate, straight, DISAGREES)
    situation.never(predicate, over(levels, lambda level: 1e6 * (1 if level < 500 else 3)), AGREES)
    situation.never(predicate, over(levels, lambda _: 1e6), AGREES)
    situation.plain(predicate, straight)


@pytest.mark.thorough
@some
@given(SITUATION, HEIGHTS)
def test_growth(situation: Situation, heights: list[float]) -> None:
    """Growth: accept neither less nor more than the bound where the growth equals it."""
    truth = over((1, 2, 8), lambda level: 1e6 * level * (0.95 if level == 8 else 1), heights)
    predicate = Growth(kind="growth", factor="queues", high=0.95)
    situation.never(predicate, truth, *BOTH)
    situation.plain(predicate, over((1, 2, 8), lambda level: 1e6 * level**0.8, heights))


AT_FOUR = Peak(kind="peak", factor="queues", low=4, high=4)


@pytest.mark.thorough
@some
@given(SITUATION, st.floats(0.001, 0.3))
def test_peak(situation: Situation, drop: float) -> None:
    """Peak: at another level it does not agree, at the stated one it does not disagree, however flat the top is."""
    levels = (1, 2, 4, 6, 8, 10)
    situation.never(AT_FOUR, over(levels, lambda level: 1e6 * (1 - drop * abs(level - 4) / 4)), DISAGREES)
    situation.never(AT_FOUR, over(levels, lambda level: 1e6 * (1 - drop * abs(level - 6) / 4)), AGREES)
    situation._replace(repeats=5).plain(AT_FOUR, over(levels, lambda level: 1e6 * (1 - 0.1 * abs(level - 4))))


@pytest.mark.parametrize("groups", [1, pytest.param(5, marks=pytest.mark.thorough)])
def test_many_groups_refute_no_more_often_than_one(groups: int) -> None:
    """All curves are flat but for a thousandth, and their top is where it is stated."""
    levels, situation = (1, 2, 4, 6, 8, 10), Situation(5, 0.02, 3)
    there = over(levels, lambda level: 1e6 * (1 - 0.001 * abs(level - 4) / 4), [1.0] * groups)
    situation.never(AT_FOUR, there, DISAGREES)
    crossing: dict[tuple[Level, ...], float] = {
        (level, shape, group): 1e6 * (end if level == 1 else 2 - end)
        for group in range(groups)
        for shape, end in {"NC": 0.9999, "SQ": 1.0}.items()
        for level in (1, 8)
    }
    situation.never(CROSSES, crossing, DISAGREES, names=(*SHAPES, "cores"))


# A power of the level of which a straight line explains 89.5 % of the variance over the levels below.
LINE_OF_895 = 2.25976


@pytest.mark.parametrize("noise", [0.003, 0.02, 0.08])
def test_a_line_that_explains_too_little_does_not_pass_by_luck(noise: float) -> None:
    """The line explains 89.5 % of the variance, and 90 % are stated."""
    levels = (1, 100, 200, 300, 400, 500)
    curve = over(levels, lambda level: 1e6 * (1 + (level / 500) ** LINE_OF_895))
    Situation(5, noise, 4).never(Linear(kind="linear", factor="queues", r_squared=0.9), curve, AGREES)


@pytest.mark.parametrize("levels", [(1, 2, 4), (1, 2, 6, 10)], ids=["at the end", "not measured"])
def test_a_peak_that_the_sweep_does_not_enclose_is_none(levels: tuple[int, ...]) -> None:
    found = drawn(FACTORS, over(levels, lambda level: 1e6 * level), 5, 0.01, np.random.default_rng(1))
    assert judge(AT_FOUR, found, METRIC).kind is VerdictKind.NOT_MEASURABLE


@some
@given(SITUATION, st.integers(1, 5))
def test_dips(situation: Situation, between: int) -> None:
    """Dips: a flat course and a mere fall are no dip, a dip is not denied, whichever level is the lowest by chance."""
    levels = (64, *np.linspace(100, 300, between).round().astype(int).tolist(), 320)
    predicate = Dips(kind="dips", factor="queues", first=64, last=320)
    situation.never(predicate, over(levels, lambda _: 1e6), AGREES)
    situation.never(predicate, over(levels, lambda level: 1e6 - level), AGREES)
    situation.never(predicate, over(levels, lambda level: 1e6 if level in (64, 320) else 0.99e6), DISAGREES)
    deep = over(levels, lambda level: 1e6 if level in (64, 320) else 0.8e6)
    situation._replace(repeats=5).plain(predicate, deep)


@pytest.mark.thorough
@some
@given(st.builds(Situation, st.integers(3, 7), st.sampled_from([0.003, 0.02]), SEEDS), st.floats(0.3, 0.8))
def test_rise_share(situation: Situation, share: float) -> None:
    """RiseShare: a rise that is the bound's share of the other's is neither less nor more."""
    sweeps = over((1, 512), lambda level: 10.0 + 6 * level)
    latency = {at: 1000 + share * sweep for at, sweep in sweeps.items()}
    predicate = RiseShare(kind="rise_share", factor="queues", first=1, last=512, beside="sweep_time_ns", low=share)
    situation.never(predicate, latency, *BOTH, beside=sweeps)
    near = predicate.model_copy(update={"low": share - 0.05, "high": share + 0.05})
    situation._replace(repeats=5).plain(near, latency, beside=sweeps)

    def bound(rng: np.random.Generator) -> list[PointValues]:
        """Return two metrics that move together from trial to trial, so that their rises agree in spite of noise."""
        return [
            PointValues(one.levels, tuple(1000 + share * sweep for sweep in one.values), beside=one.values)
            for one in drawn(FACTORS, sweeps, 5, 0.08, rng)
        ]

    assert counted(near, bound, situation.seed)[AGREES] >= LEAST_RIGHT


@some
@given(SITUATION, st.floats(0.2, 1))
def test_ratio_of_ratios(situation: Situation, fall: float) -> None:
    """RatioOfRatios: two equal falls are equal, whatever their heights."""
    given_ = {"kind": "ratio_of_ratios", "factor": "queues", "from": 0, "to": 1, "across": "shape"}
    predicate = RatioOfRatios.model_validate({**given_, "of": "NC", "over": "SQ", "low": 1.0})
    alike = shapes({"NC": lambda q: 3e6 * fall**q, "SQ": lambda q: 1e6 * fall**q}, (0, 1))
    situation.never(predicate, alike, *BOTH, names=SHAPES)
    milder = shapes({"NC": lambda q: 3e6 * 0.9**q, "SQ": lambda q: 1e6 * 0.5**q}, (0, 1))
    situation.plain(predicate, milder, names=SHAPES, noise=0.01)


CHANGES = {"kind": "ratio_of_ratios", "factor": "queues", "from": 0, "to": 1, "across": "shape", "of": "NC"}
RISE = {"kind": "rise_share", "factor": "queues", "from": 0, "to": 1, "beside": "tx_pps"}


@pytest.mark.parametrize(("given_", "most"), [({**CHANGES, "over": "SQ"}, 0.97), (RISE, 0.47)])
def test_comparisons_hold_the_error_that_single_trials_have(given_: Mapping[str, object], most: float) -> None:
    """Two shapes fall to 0.7 and 0.75 of what they were, beside something that falls by 0.6: trials hardly scatter."""
    truth = shapes({"NC": lambda q: 1 - 0.30 * q, "SQ": lambda q: 1 - 0.25 * q}, (0, 1))
    beside = shapes({"NC": lambda q: 1 - 0.6 * q, "SQ": lambda q: 1 - 0.6 * q}, (0, 1))
    predicate = TypeAdapter[Predicate](Predicate).validate_python({**given_, "high": most})
    sure = drawn(SHAPES, truth, 6, 1e-4, np.random.default_rng(1), beside)
    doubtful = [replace(each, error=0.2) for each in sure]
    kinds = [judge(predicate, samples, METRIC).kind for samples in (sure, doubtful)]
    assert kinds[0] is not VerdictKind.INCONCLUSIVE
    assert kinds[1] is VerdictKind.INCONCLUSIVE
    geometric = [_geometric_mean([(samples[1], samples[0])], CONFIDENCE) for samples in (sure, doubtful)]
    assert geometric[1].relative_half_width > 10 * geometric[0].relative_half_width


@pytest.mark.thorough
@some
@given(SITUATION, HEIGHTS)
def test_average_ratio(situation: Situation, heights: list[float]) -> None:
    """AverageRatio: a mean at the stated end is neither confirmed nor refuted too often; one beyond it is seen."""
    truth = over((1, 4), lambda level: 1e6 * level, heights)
    predicate = AverageRatio.model_validate({"kind": "average_ratio", "factor": "queues", "from": 1, "to": 4, "low": 4})
    situation.never(predicate, truth, *BOTH)
    for low, verdict in ((3.8, AGREES), (4.2, DISAGREES)):
        situation.plain(predicate.model_copy(update={"low": low}), truth, verdict)


def test_average_ratio_says_which_mean_and_over_what() -> None:
    """Gains of 2 and 8 are 5 or 4 on average; a paper that states 5 may mean either, so the verdict stays open."""
    gains: Truth = {(level, core): (2.0, 8.0)[core] if level == 4 else 1.0 for core in range(2) for level in (1, 4)}
    given_ = {"kind": "average_ratio", "factor": "queues", "from": 1, "to": 4, "low": 4.5}
    samples = drawn(FACTORS, gains, 5, 0.001, np.random.default_rng(1))
    finding = judge(AverageRatio.model_validate(given_), samples, METRIC)
    assert finding.kind is VerdictKind.INCONCLUSIVE
    assert "over 2 pairs of points (cores 0, 1)" in finding.sentence
    arithmetic, geometric = finding.numbers[:2]
    assert arithmetic.value == pytest.approx(5, rel=0.01)
    assert geometric.value == pytest.approx(4, rel=0.01)


CROSSES = Crosses(kind="crosses", factor="queues", across="shape", of="NC", over="SQ")


@some
@given(SITUATION)
def test_crosses(situation: Situation) -> None:
    """Crosses: curves that touch at an end or never part do not cross, and those that do are not denied."""
    for ends in ({"NC": lambda q: 1e6 * (0.8 if q == 1 else 1.0)}, {"NC": lambda _: 1e6}):
        situation.never(CROSSES, shapes({**ends, "SQ": lambda _: 1e6}), AGREES, names=SHAPES)
    crossing = shapes({"NC": lambda q: 1e6 * (0.99 + 0.02 * (q - 1) / 7), "SQ": lambda _: 1e6})
    situation.never(CROSSES, crossing, DISAGREES, names=SHAPES)
    clear = shapes({"NC": lambda q: 1e6 * (0.5 if q == 1 else 2), "SQ": lambda _: 1e6})
    situation.plain(CROSSES, clear, names=SHAPES, noise=0.02)


def test_of_the_claims_that_disagree_few_do_by_chance() -> None:
    """Fifteen claims at their bound and five that are wrong by far: 5 % of the disagreements at most are by chance."""
    rng, shares = np.random.default_rng(11), []
    stated = Within(kind="within", low=1e6)
    claims = [
        Claim(id=f"S-F5.c{k}", row="S-F5", statement="s", source="t", metric="tx_pps", predicate=stated)
        for k in range(20)
    ]
    for _ in range(DATA_SETS):
        means = [1e6 if k < 15 else 0.9e6 for k in range(20)]
        samples = [PointValues({}, tuple(rng.normal(mean, 2e4, 6))) for mean in means]

        def again(number: int, level: float, samples: Sequence[PointValues] = samples) -> Finding:
            return judge(stated, [samples[number]], METRIC, level)

        judged = [Verdict(one, "r", again(number, CONFIDENCE), []) for number, one in enumerate(claims)]
        found = _controlled(judged, again, CONFIDENCE)
        wrong = [finding.kind is DISAGREES for finding in found]
        shares.append(sum(wrong[:15]) / max(1, sum(wrong)))
        assert all(wrong[15:])
    # The standard error of the mean share is below 1 %.
    assert np.mean(shares) <= 0.05 + 3 * np.std(shares) / math.sqrt(DATA_SETS)


def carried(capacity: float, sharpness: float, loads: Sequence[int]) -> tuple[dict[int, float], dict[int, float]]:
    """Return latency and loss of a system with this load: latency grows with the share of its capacity in use."""
    latency: dict[int, float] = {
        load: 10.0 * (1 + (load / capacity) ** sharpness) if load < capacity else 500.0 for load in loads
    }
    return latency, {load: max(0.0, 1 - capacity / load) for load in loads}


def knees(sharp: float, gradual: float) -> tuple[Truth, Truth]:
    loads = (1, 5, 10, 15, 20, 25, 30, 35)
    curves = {"NC": carried(16, sharp, loads), "SQ": carried(31, gradual, loads)}
    latency: Truth = {(load, shape): both[0][load] for shape, both in curves.items() for load in loads}
    return latency, {(load, shape): both[1][load] for shape, both in curves.items() for load in loads}


@some
@given(SITUATION)
def test_steeper_knee(situation: Situation) -> None:
    """SteeperKnee: of two alike none is steeper, and the order of two that differ is not reversed."""
    predicate = SteeperKnee(kind="steeper_knee", factor="queues", across="shape", of="NC", over="SQ")
    for sharp, gradual, wrong in ((3, 3, AGREES), (1.5, 6, AGREES), (20, 1.5, DISAGREES)):
        latency, loss = knees(sharp, gradual)
        situation.never(predicate, latency, wrong, names=SHAPES, beside=loss)
    latency, loss = knees(20, 1.5)
    situation.plain(predicate, latency, names=SHAPES, beside=loss)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "ends", [(3, 20), *(pytest.param(other, marks=pytest.mark.thorough) for other in ((2, 20), (5, 15)))]
)
def test_repeats_that_end_by_luck(ends: tuple[int, int]) -> None:
    """After a stop at a narrow interval the true mean lies outside the interval that is used in 5 % of cases."""
    rng, (at_least, at_most) = np.random.default_rng(7), ends
    worst = dict.fromkeys((CONFIDENCE, STOPPED_CONFIDENCE), 0)
    for within in (0.2, 0.4, 0.8):
        outside = dict.fromkeys(worst, 0)
        for values in (10 + 4 * rng.standard_normal((STOPS, at_most))).tolist():
            stops = (n for n in range(at_least, at_most) if stopping_half_width(values[:n]) <= within)
            made = values[: next(stops, at_most)]
            for level in outside:
                estimate = mean_estimate(made, level)
                outside[level] += not estimate.low <= 10 <= estimate.high
        worst = {level: max(worst[level], count) for level, count in outside.items()}
    assert worst[STOPPED_CONFIDENCE] <= MOST_STOPS_OUTSIDE
    assert worst[CONFIDENCE] > (1 - CONFIDENCE) * STOPS, "the usual interval covers too little"


TESTS = [each for name, each in list(globals().items()) if name.startswith("test_") and callable(each)]


@pytest.mark.parametrize("confidence", [0.95, 0.999])
def test_a_higher_level_decides_less(confidence: float) -> None:
    found = drawn(FACTORS, over((1, 8), lambda level: 1e6 * (1 + 0.01 * level)), 3, 0.01, np.random.default_rng(3))
    kind = judge(Ratio(kind="ratio", factor="queues", first=1, last=8, low=1.0), found, METRIC, confidence).kind
    assert kind is (AGREES if confidence == 0.95 else VerdictKind.INCONCLUSIVE)
