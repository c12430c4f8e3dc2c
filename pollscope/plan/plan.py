# SPDX-License-Identifier: BSD-3-Clause
"""Make the ordered list of trials of a spec, and the points that are left out and why.

A plan depends on the spec and its seed alone, so that an interrupted run finds the same trials again.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pollscope.base.errors import UsageError
from pollscope.base.names import TrialKind
from pollscope.knobs.points import knob_settings
from pollscope.node.requests import DUT_SEEDS
from pollscope.plan.blocks import has_blocks, in_blocks, rounds
from pollscope.plan.search import expected_trials, settings_of
from pollscope.spec import lcores
from pollscope.spec.checks import read_level
from pollscope.spec.model import LOADS, Parameters, Spec
from pollscope.spec.points import Level, Point, all_points, dropped, point_id, point_of

Refusal = Callable[[Point], str | None]

# Estimated time of a run in addition to its trials.
_START_S = 4.0
_CONFIGURATION_S = 0.5
_TRIAL_OVERHEAD_S = 0.03
# Knobs that are boot parameters (docs/reference-metrics.md).
_REBOOT_KNOBS = ("iommu",)
# Parameters of load, generator and co-runners do not change the configuration of the DUT.
_LOAD_PARAMETERS = frozenset(LOADS)
_CORUNNER_PARAMETERS = frozenset(name for name in Parameters.model_fields if name.startswith(("corunner", "spinning")))


@dataclass(frozen=True)
class Trial:
    """One warm-up plus one window of a point.

    Attributes:
        id: kind, point and repeat; unique in a plan.
        maximum_of: the point whose maximum the offered load refers to, for `load_of_max` above 0.
        common_maxima: points of whose maxima it is the smallest, where the spec asks for a load in common.
        search_trials: expected number of trials of kind `search`, for a maximum that is searched.
        pair: the pair that runs the trial, where several share the trials.
        block: the block that holds the trial (pollscope.plan.blocks); None if the run has too few blocks to compare in.
    """

    id: str
    kind: TrialKind
    point: Point
    repeat: int
    warmup_ns: int
    window_ns: int
    drain_ns: int
    maximum_of: str | None = None
    common_maxima: tuple[str, ...] = ()
    search_trials: int = 0
    pair: str | None = None
    block: str | None = None

    @property
    def seconds(self) -> float:
        """Return the expected duration."""
        return ((self.warmup_ns + self.window_ns) / 1e9 + _TRIAL_OVERHEAD_S) * (self.search_trials or 1)


@dataclass(frozen=True)
class LeftOut:
    """A point that this testbed cannot host, or that the spec drops.

    Attributes:
        factors: its levels; None for the baseline.
        refused: by the testbed. Otherwise the spec drops it, or no testbed could host it.
    """

    point: str
    reason: str
    factors: Mapping[str, Level] | None = None
    refused: bool = False


@dataclass(frozen=True)
class Plan:
    """The trials of a run in their order."""

    spec: Spec
    trials: list[Trial]
    left_out: list[LeftOut]
    points: list[Point] = field(repr=False)
    pair: str | None = None  # that makes them, where several share the trials

    @property
    def seconds(self) -> float:
        """Return the expected duration with the least number of repeats; 0 without a trial."""
        if not self.trials:
            return 0.0
        configurations = {configuration_key(trial.point) for trial in self.trials}
        return _START_S + _CONFIGURATION_S * len(configurations) + sum(trial.seconds for trial in self.trials)

    @property
    def seconds_at_most(self) -> float:
        """Return the expected duration with all that may be added: rounds, extra blocks, repeats, long searches."""
        until = self.spec.repeats.narrow
        if self.spec.repeats.decided:
            return max(self.seconds, (self.spec.repeats.at_most_ns or 0) / 1e9) + self._searching_at_most()
        extra = (until.at_most - until.at_least if until is not None else 0) + self.spec.noise.extra_blocks
        again = (1 + self.spec.noise.repeat_flagged) if self.spec.noise.repeat_flagged else 1
        measured = sum(trial.seconds for trial in self.further_round(self.points, 0))
        return (self.seconds + extra * measured + self._searching_at_most()) * again

    def _searching_at_most(self) -> float:
        """Return how much longer than expected the searches may take."""
        searches = [trial for trial in self.trials if trial.search_trials]
        most = [self.spec.maximum.at_most_ns // trial.window_ns for trial in searches]
        return sum(
            trial.seconds * (limit / trial.search_trials - 1) for trial, limit in zip(searches, most, strict=True)
        )

    def further_round(self, points: Iterable[Point], repeat: int, count: int = 1) -> list[Trial]:
        """Return this number of further trials of each point, shuffled by the spec's order."""
        blocks = _round(self.spec, list(points), range(repeat, repeat + count), repeat)
        blocks = _with_common_maxima(self.spec, blocks, self.points)
        return _on_pair(blocks if has_blocks(self.spec) else _without_blocks(blocks), self.pair)


def configuration_key(point: Point) -> tuple[object, ...]:
    """Return the parameters that distinguish two configurations: all but load, co-runners and the DUT's seeds."""
    left_out = _LOAD_PARAMETERS | _CORUNNER_PARAMETERS | set(DUT_SEEDS)
    return tuple(value for name, value in point.values().items() if name not in left_out)


@dataclass(frozen=True)
class Share:
    """The share of one of several pairs in a spec's trials: every `count`th block of repeats.

    Each pair measures every point, its own maxima and its own baselines, and is compared with itself.
    """

    pair: str
    index: int
    count: int


def plan_parts(spec: Spec, parts: Sequence[tuple[str, Refusal]]) -> list[Plan]:
    """Return a plan for each of several pairs (name and refusal), or the one plan of a testbed.

    Raises:
        UsageError: the trials of this spec cannot be shared.
    """
    if len(parts) == 1:
        return [make_plan(spec, parts[0][1])]
    if spec.repeats.until is not None:  # narrow or decided
        raise UsageError("several pairs share a fixed number of repeats", "repeats", "--set 'repeats={count: 6}'")
    if spec.repeats.at_least < len(parts):
        what = f"{spec.repeats.at_least} repeats cannot be shared by {len(parts)} pairs"
        raise UsageError(what, "repeats.count", f"{len(parts)} or more, so that each pair measures every point")
    return [make_plan(spec, refusal, Share(name, index, len(parts))) for index, (name, refusal) in enumerate(parts)]


def make_plan(spec: Spec, refusal: Refusal, share: Share | None = None) -> Plan:
    """Plan the trials of a spec on a testbed.

    Args:
        spec: the checked spec.
        refusal: why the testbed cannot host a point; None when it can.
        share: of the pair, where several share the trials.
    """
    points, left_out = _hosted(spec, refusal)
    baseline = _baseline_point(spec, refusal, left_out) if points else None
    repeats = [repeat for repeat in range(spec.repeats.at_least) if not share or repeat % share.count == share.index]
    measured = [
        trial for turn, together in enumerate(rounds(spec, repeats)) for trial in _round(spec, points, together, turn)
    ]
    measured = measured if has_blocks(spec) else _without_blocks(measured)
    measured = _with_common_maxima(spec, measured, points)
    maxima = _maximum_trials(spec, [*points, *([baseline] if baseline is not None else [])])
    pair = share.pair if share else None
    trials = _on_pair([*maxima, *_with_baselines(spec, measured, baseline)], pair)
    return Plan(spec, trials, left_out, points, pair)


def _on_pair(trials: list[Trial], pair: str | None) -> list[Trial]:
    return [replace(trial, id=f"{trial.id}@{pair}", pair=pair) for trial in trials] if pair else trials


def _hosted(spec: Spec, refusal: Refusal) -> tuple[list[Point], list[LeftOut]]:
    points, left_out = [], []
    for point in all_points(spec):
        never = dropped(spec, point) or impossible(point.params)
        reason = never or refusal(point)
        if reason is None:
            points.append(point)
        else:
            left_out.append(LeftOut(point.id, reason, point.factors, refused=never is None))
    return points, left_out


def impossible(params: Parameters) -> str | None:
    """Return why no testbed at all can host a point of a crossing; None if one could."""
    pollers, cores = lcores.pollers(params), params.cores
    if params.queues < pollers:
        return f"{pollers} polling lcores need as many RX queues, not {params.queues}"
    if params.placement == "smt-pairs" and cores % 2:
        return f"smt-pairs: {cores} cores make no whole number of pairs"
    return None


def _baseline_point(spec: Spec, refusal: Refusal, left_out: list[LeftOut]) -> Point | None:
    if spec.baseline is None:
        return None
    levels = {name: read_level(spec, name, spec.baseline.point[name]) for name in spec.levels}
    point = point_of(spec, levels)
    reason = impossible(point.params) or refusal(point)
    if reason is not None:
        left_out.append(LeftOut(f"baseline {point.id}", reason))
        return None
    return point


def _round(spec: Spec, points: list[Point], repeats: Sequence[int], turn: int) -> list[Trial]:
    """Return one trial of each point per repeat, block by block; every other repeat of a block runs backwards."""
    first = repeats[0]
    order = _few_turns(spec, _shuffled(spec, points, f"measure {first}"), turn)
    blocks = in_blocks(spec, order, lambda point: _trial(spec, "measure", point, first).seconds)
    return [
        replace(_trial(spec, "measure", point, repeat), block=f"{first}.{number}")
        for number, block in enumerate(blocks)
        for back, repeat in enumerate(repeats)
        for point in (block[::-1] if back % 2 else block)
    ]


def _without_blocks(trials: list[Trial]) -> list[Trial]:
    return [replace(trial, block=None) for trial in trials]


def _with_common_maxima(spec: Spec, trials: list[Trial], points: Iterable[Point]) -> list[Trial]:
    """Let points that differ in nothing but the factors of `common_to` share the smallest of their maxima."""
    if not spec.maximum.common_to:
        return trials
    together: dict[str, dict[str, None]] = {}
    for point in filter(_needs_maximum, points):
        together.setdefault(_alike(spec, point), {})[_maximum_point(spec, point).id] = None
    return [
        replace(trial, common_maxima=tuple(together[_alike(spec, trial.point)])) if trial.maximum_of else trial
        for trial in trials
    ]


def _alike(spec: Spec, point: Point) -> str:
    apart = {"load_of_max", *spec.maximum.common_to}
    return point_id({name: level for name, level in point.factors.items() if name not in apart})


def _shuffled(spec: Spec, points: list[Point], block: str) -> list[Point]:
    # Each block has its own random generator, so that a further round does not depend on the number before it.
    order = list(points)
    if spec.order.randomise:
        random.Random(f"{spec.order.seed} {block}").shuffle(order)
    return order


def _few_turns(spec: Spec, points: list[Point], turn: int) -> list[Point]:
    """Return the points with those of the same knob levels together, otherwise in the given order.

    Every other block of a pair goes through the levels backwards (ABBA). The last level of a block is then the first of
    the next, and a steady drift of the host favours none.
    """
    keys = list(dict.fromkeys(_knob_key(point) for point in all_points(spec))) if knob_settings(spec.levels) else []
    if spec.order.randomise:
        random.Random(f"{spec.order.seed} knobs").shuffle(keys)
    # A reboot takes minutes, so its levels are kept together, in the order in which they first appear.
    reboots = list(dict.fromkeys(reboot for reboot, _ in keys))
    keys.sort(key=lambda key: reboots.index(key[0]))
    if spec.order.randomise and turn % 2:
        keys.reverse()
    return [point for key in keys for point in points if _knob_key(point) == key] if keys[1:] else list(points)


def _knob_key(point: Point) -> tuple[str, str]:
    """Return the levels of the knobs that need a reboot, and of all knobs."""
    settings = knob_settings(point.factors)
    reboots = {name: level for name, level in settings.items() if name.partition("@")[0] in _REBOOT_KNOBS}
    return point_id(reboots), point_id(settings)


def _trial(spec: Spec, kind: TrialKind, point: Point, repeat: int) -> Trial:
    window_ns = spec.trial.window_ns
    is_search = kind == "maximum" and spec.maximum.method == "mlrsearch"
    if kind == "maximum" and spec.maximum.window_ns is not None:
        window_ns = spec.maximum.window_ns
    return Trial(
        id=f"{kind}:{point.id}:{repeat}",
        kind=kind,
        point=point,
        repeat=repeat,
        warmup_ns=spec.trial.warmup_ns,
        window_ns=window_ns,
        drain_ns=spec.trial.drain_ns,
        maximum_of=_maximum_point(spec, point).id if kind != "maximum" and _needs_maximum(point) else None,
        search_trials=expected_trials(settings_of(spec)) if is_search else 0,
    )


def search_trial(maximum: Trial, step: int, load_pps: float | None) -> Trial:
    """Return one trial of a search.

    Args:
        maximum: the planned search.
        step: its place in the search, from 0.
        load_pps: offered load; None saturates.
    """
    load = {"saturate": True} if load_pps is None else {"saturate": None, "load_pps": load_pps}
    point = replace(maximum.point, params=maximum.point.params.model_copy(update=load))
    on_pair = f"@{maximum.pair}" if maximum.pair else ""
    identifier = f"search:{point.id}:{maximum.repeat}.{step}{on_pair}"
    return replace(maximum, id=identifier, kind="search", point=point, search_trials=0)


def _needs_maximum(point: Point) -> bool:
    """Return whether the offered load is a share (above 0) of a maximum that has to be measured first."""
    return bool(point.params.load_of_max)


def _maximum_point(spec: Spec, point: Point) -> Point:
    """Return the saturating point whose throughput is 100 % for this point: all other factors have the same levels."""
    factors = {name: level for name, level in point.factors.items() if name != "load_of_max"}
    full = point_of(spec, factors)
    return replace(full, params=full.params.model_copy(update={"load_of_max": None, "saturate": True}))


def _maximum_trials(spec: Spec, points: list[Point]) -> list[Trial]:
    needed = {point.id: point for point in (_maximum_point(spec, each) for each in points if _needs_maximum(each))}
    return [
        _trial(spec, "maximum", point, repeat)
        for repeat in range(spec.maximum.repeats)
        for point in _few_turns(spec, _shuffled(spec, list(needed.values()), f"maximum {repeat}"), repeat)
    ]


def _with_baselines(spec: Spec, measured: list[Trial], baseline: Point | None) -> Iterator[Trial]:
    if baseline is None or spec.baseline is None:
        yield from measured
        return
    for index, trial in enumerate(measured):
        if index % spec.baseline.every == 0:
            yield _trial(spec, "baseline", baseline, index // spec.baseline.every)
        yield trial
    yield _trial(spec, "baseline", baseline, -(-len(measured) // spec.baseline.every))
