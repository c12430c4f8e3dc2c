# SPDX-License-Identifier: BSD-3-Clause
"""Points that are compared are planned into blocks of about a second, and compared within them."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shipped_specs import EXPERIMENTS, shipped

from pollscope.analysis.claims.model import claims_of
from pollscope.analysis.claims.predicates import judge
from pollscope.analysis.claims.sweeps import trend_over
from pollscope.analysis.claims.verdict import VerdictKind
from pollscope.analysis.point_values import PointValues, by_point
from pollscope.base.errors import UsageError
from pollscope.base.knob_values import KNOB_PREFIX
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.plan.blocks import compared, compared_by
from pollscope.plan.plan import Plan, make_plan
from pollscope.spec import load_text
from pollscope.spec.predicates import Ratio, RatioOfRatios, TrendOver

SHORT = "trial: {warmup: 5 ms, window: 25 ms, drain: 0 ms}\n"
TWO = "factors: {lookups: [1, 8]}\n"


def plan_of(text: str) -> Plan:
    spec = load_text(f"format: 1\nname: x\ntitle: t\nparameters: {{load_pps: 0}}\n{text}", "x.yaml").spec
    return make_plan(spec, lambda _point: None)


def blocks_of(plan: Plan) -> dict[str | None, list[tuple[str, int]]]:
    found: dict[str | None, list[tuple[str, int]]] = {}
    for trial in plan.trials:
        found.setdefault(trial.block, []).append((trial.point.id, trial.repeat))
    return found


def test_a_block_holds_each_point_twice_in_reversed_order() -> None:
    plan = plan_of(f"{TWO}{SHORT}repeats: {{count: 12}}\n")
    blocks = blocks_of(plan)
    assert len(blocks) == 6
    for block in blocks.values():
        points = [point for point, _ in block]
        assert points == points[::-1]
        assert set(Counter(points).values()) == {2}
    moves = [one != other for one, other in pairwise(trial.block for trial in plan.trials)]
    assert sum(moves) == 5  # the trials of a block lie next to each other


def test_few_repeats_make_no_blocks() -> None:
    assert set(blocks_of(plan_of(f"{TWO}{SHORT}repeats: {{count: 11}}\n"))) == {None}


def test_a_long_round_is_divided_by_the_factor_that_is_compared() -> None:
    text = "factors: {lookups: [1, 8], queues: [1, 2, 4]}\ntrial: {window: 200 ms}\nrepeats: {count: 12}\n"
    for order, width in (("", 3), ("order: {compare: lookups}\n", 2)):
        blocks = blocks_of(plan_of(text + order))
        assert {len(block) for block in blocks.values()} == {2 * width}
        for block in blocks.values():
            levels = {tuple(part.split("=")[0] for part in point.split(",")) for point, _ in block}
            assert len(levels) == 1
            assert len({point for point, _ in block}) == width


def test_a_block_holds_the_levels_of_several_factors_nested() -> None:
    text = "factors: {lookups: [1, 8], queues: [1, 2, 4], frame: [64 B, 128 B]}\ntrial: {window: 200 ms}\n"
    text += "repeats: {count: 12}\norder: {compare: [lookups, queues]}\n"
    for block in blocks_of(plan_of(text)).values():
        levels = [dict(part.split("=") for part in point.split(",")) for point, _ in block]
        assert len(block) == 12
        assert len({level["frame"] for level in levels}) == 1
        assert all(one["queues"] == other["queues"] for one, other in zip(levels[::2], levels[1::2], strict=True))


def test_without_a_choice_a_block_holds_what_the_specs_own_claims_compare() -> None:
    text = "factors: {lookups: [1, 8], queues: [1, 2, 4]}\ntrial: {window: 200 ms}\nrepeats: {count: 12}\n"
    claim = "{id: faster, statement: s, metric: rx_pps, predicate: {kind: trend, factor: lookups, direction: falls}}"
    blocks = blocks_of(plan_of(f"{text}claims: [{claim}]\n"))
    assert {len(block) for block in blocks.values()} == {4}


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: file.stem)
def test_a_block_of_a_shipped_spec_holds_what_claims_of_its_rows_compare(file: Path) -> None:
    spec = shipped(file).spec
    swept = {name for name in spec.levels if not name.startswith(KNOB_PREFIX)}
    claimed = set(compared_by([claim.predicate for claim in claims_of(spec.all_rows)], swept))
    assert claimed <= set[str]().union(*compared(spec))


def test_every_point_is_there_once_per_repeat() -> None:
    plan = plan_of(f"factors: {{lookups: [1, 8], queues: [1, 2, 4]}}\n{SHORT}repeats: {{count: 13}}\n")
    assert Counter(trial.repeat for trial in plan.trials) == dict.fromkeys(range(13), 6)
    assert len({trial.id for trial in plan.trials}) == 78


def test_levels_of_knobs_share_no_block() -> None:
    text = f"factors: {{knob.governor: [performance, powersave], queues: [1, 2]}}\n{SHORT}repeats: {{count: 12}}\n"
    for block in blocks_of(plan_of(text)).values():
        assert len(block) == 2
        assert len({point.split(",")[0] for point, _ in block}) == 1


@pytest.mark.parametrize("compare", ["burst", "[lookups, burst]"])
def test_a_compared_factor_must_exist(compare: str) -> None:
    with pytest.raises(UsageError, match="'burst' is not a factor"):
        plan_of(f"{TWO}order: {{compare: {compare}}}\n")


MANY_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5)


def planted(ratio: float, blocks: int, seed: int, levels: tuple[float, ...] = (1.0, 1.5)) -> list[PointValues]:
    """Return two points whose rates follow the levels of a host, which change from block to block, with 2 % noise."""
    rng = np.random.default_rng(seed)
    host = rng.choice(levels, blocks)
    names = tuple(str(number) for number in range(blocks))
    return [
        PointValues(
            {"queues": level},
            tuple(1e6 * mean * host * (1 + 0.02 * rng.standard_normal(blocks))),
            blocks=names,
        )
        for level, mean in ((1, 1.0), (2, ratio))
    ]


def without(found: list[PointValues]) -> list[PointValues]:
    return [replace(sample, blocks=()) for sample in found]


def test_a_change_of_the_host_between_blocks_widens_no_ratio() -> None:
    first, last = planted(1.1, 30, seed=1)
    paired, pooled = last.over(first), replace(last, blocks=()).over(first)
    assert paired.low < 1.1 < paired.high
    assert paired.relative_half_width < 0.02 < 0.1 < pooled.relative_half_width


def test_trends_and_ratios_of_ratios_compare_within_blocks() -> None:
    found = planted(1.1, 30, 3, MANY_LEVELS)
    metric = metric_dictionary()["rx_pps"]
    rising = TrendOver(kind="trend", factor="queues", direction="rises")
    assert judge(rising, found, metric).kind is VerdictKind.AGREES
    assert judge(rising, without(found), metric).kind is VerdictKind.INCONCLUSIVE
    at_least = Ratio.model_validate({"kind": "ratio", "factor": "queues", "from": 1, "to": 2, "low": 1.05})
    assert judge(at_least, found, metric).kind is VerdictKind.AGREES
    both = [replace(each, levels={**each.levels, "shape": "FB"}) for each in found]
    both += [replace(each, levels={**each.levels, "shape": "SQ"}) for each in planted(1.0, 30, 4, MANY_LEVELS)]
    keys = {"kind": "ratio_of_ratios", "factor": "queues", "from": 1, "to": 2, "across": "shape", "of": "FB"}
    more = RatioOfRatios.model_validate({**keys, "over": "SQ", "low": 1.0})
    assert judge(more, both, metric).kind is VerdictKind.AGREES
    assert judge(more, without(both), metric).kind is VerdictKind.INCONCLUSIVE


def test_zeros_are_compared_by_their_means() -> None:
    names = tuple("abcdef")
    zeros = PointValues({}, (0.0,) * 6, blocks=names)
    ones = PointValues({}, (1.0, 1.1, 0.9, 1.0, 1.05, 0.95), blocks=names)
    assert zeros.over(ones).value == 0


def test_blocks_of_two_runs_lie_far_apart() -> None:
    rows = [
        {"run_id": run, "block": f"{block}.0", "point": "p", "kind": "measure", "status": "ok", "host_state": ""}
        | {"flags": "[]", "metric.rx_pps": 1e6 * (block + 1), "factor.queues": 1}
        for run in ("a", "b")
        for block in range(8)
    ]
    first, second = (by_point(pd.DataFrame(rows[start : start + 8]), "rx_pps")[0] for start in (0, 8))
    assert second.over(first).low < 1 < second.over(first).high
    assert second.over(second).relative_half_width < 0.001


def test_differences_are_those_within_blocks() -> None:
    first, last = planted(1.1, 30, 5, MANY_LEVELS)
    assert last.chance(first) < 1e-6 < 0.05 < replace(last, blocks=()).chance(first)
    change = last.minus(first)
    assert 0 < change.low < change.high < 0.2e6


def test_a_change_by_block_is_named_beside_means_that_contradict_it() -> None:
    """One disturbed block: each pair falls by a tenth, the means fall by more than half."""
    names = tuple(str(block) for block in range(8))
    one = PointValues({"queues": 1}, (1.0,) * 7 + (20.0,), blocks=names)
    two = PointValues({"queues": 8}, (0.9, 0.91, 0.89) * 2 + (0.9, 18.0), blocks=names)
    far = PointValues({"queues": 8}, (0.9, 0.91, 0.89) * 2 + (0.9, 0.9))
    predicate = TrendOver(kind="trend", factor="queues", direction="falls")
    texts = [
        trend_over(predicate, [one, last], metric_dictionary()["ipc"], 0.95).numbers[0].text for last in (two, far)
    ]
    assert ", -10 % within blocks (" in texts[0]
    assert "within blocks" not in texts[1]
