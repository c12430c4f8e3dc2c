# SPDX-License-Identifier: BSD-3-Clause
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollscope.base.errors import UsageError
from pollscope.plan.plan import Plan, make_plan, plan_parts
from pollscope.spec import Overrides, load_text
from pollscope.spec.points import Point
from pollscope.testbeds.maxima import Maxima

HEAD = "format: 1\nname: x\nrow: S-F5\ntitle: t\n"


def hosts_all(_point: Point) -> None:
    return None


def plan_of(text: str, refusal: Any = hosts_all) -> Plan:
    return make_plan(load_text(HEAD + text, "x.yaml").spec, refusal)


def test_every_point_is_there_once_in_every_block() -> None:
    plan = plan_of("parameters: {load_pps: 0}\nfactors: {queues: [1, 2, 4], burst: [8, 32]}\nrepeats: {count: 4}\n")
    assert len(plan.trials) == 24
    assert len({trial.id for trial in plan.trials}) == 24
    for block in range(4):
        points = Counter(trial.point.id for trial in plan.trials[6 * block : 6 * block + 6])
        assert set(points.values()) == {1}
        assert len(points) == 6


@settings(deadline=None)  # a busy host is no failure
@given(st.integers(0, 2**31 - 1))
def test_the_seed_decides_the_order(seed: int) -> None:
    text = f"parameters: {{load_pps: 0}}\nfactors: {{queues: {{from: 1, to: 20, step: 1}}}}\norder: {{seed: {seed}}}\n"
    first, second = ([trial.id for trial in plan_of(text).trials] for _ in range(2))
    assert first == second
    other = [trial.id for trial in plan_of(text.replace(f"seed: {seed}", f"seed: {(seed + 1) % 2**31}")).trials]
    assert sorted(first) == sorted(other)
    assert first != other  # equal with probability 1 in 20!^5


def test_without_randomising_the_order_is_that_of_the_levels() -> None:
    text = "parameters: {load_pps: 0}\nfactors: {queues: [4, 1, 2]}\nrepeats: {count: 2}\norder: {randomise: false}\n"
    assert [trial.point.factors["queues"] for trial in plan_of(text).trials] == [4, 1, 2, 4, 1, 2]


def test_maxima_come_before_every_trial_that_needs_one() -> None:
    plan = plan_of(
        "factors: {queues: [1, 2], load_of_max: [0 %, 50 %, 100 %]}\nrepeats: {count: 2}\nmaximum: {repeats: 3}\n"
    )
    kinds = [trial.kind for trial in plan.trials]
    assert kinds == ["maximum"] * 6 + ["measure"] * 12
    maxima = {trial.point.id for trial in plan.trials if trial.kind == "maximum"}
    assert maxima == {"queues=1", "queues=2"}
    for trial in plan.trials:
        if trial.kind == "maximum":
            assert trial.point.params.saturate is True
            assert trial.point.params.load_of_max is None
            assert trial.maximum_of is None
        elif trial.point.factors["load_of_max"] == 0:
            assert trial.maximum_of is None
        else:
            assert trial.maximum_of == f"queues={trial.point.factors['queues']}"


def test_points_with_a_load_in_common_refer_to_the_maxima_of_all_of_them() -> None:
    plan = plan_of(
        "factors: {cores: [1, 1, 2, 2], queues: [1, 1, 2, 1], organisation: [scale-out, corec, scale-out, corec], "
        "load_of_max: [0 %, 50 %]}\nzip: [[cores, queues, organisation]]\n"
        "maximum: {common_to: [organisation, queues]}\n"
    )
    loaded = [trial for trial in plan.trials if trial.maximum_of]
    for trial in loaded:
        assert trial.maximum_of in trial.common_maxima
        cores = trial.point.factors["cores"]
        assert len(trial.common_maxima) == 2
        assert all(f"cores={cores}," in each for each in trial.common_maxima)
    assert {len(trial.common_maxima) for trial in plan.trials if trial not in loaded} == {0}
    one = next(trial.point for trial in loaded)
    again = next(trial for trial in plan.further_round([one], 9) if trial.maximum_of)
    assert len(again.common_maxima) == 2, "a further round of one point has the same load"


def test_a_load_in_common_is_a_share_of_the_smallest_maximum() -> None:
    plan = plan_of("factors: {queues: [1, 2], load_of_max: [50 %]}\nmaximum: {repeats: 1, common_to: [queues]}\n")
    maxima = Maxima([])
    for trial in plan.trials[:2]:
        record = SimpleNamespace(kind="maximum", point=trial.point.id, trial=trial.id, search=None)
        maxima.keep(record, {"rx_pps": 1e6 * trial.point.params.queues, "imissed_share": 0.5})  # type: ignore[arg-type]
    assert {maxima.of(trial) for trial in plan.trials if trial.kind == "measure"} == {1e6}


@pytest.mark.parametrize(
    ("name", "what"), [("cores", "'cores' is not a factor"), ("load_of_max", "other than the load")]
)
def test_a_load_is_common_to_factors_of_the_spec(name: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        plan_of(f"factors: {{queues: [1, 2], load_of_max: [50 %]}}\nmaximum: {{common_to: [{name}]}}\n")


def test_no_maximum_is_measured_when_none_is_needed() -> None:
    plan = plan_of("factors: {load_of_max: [0 %]}\n")
    assert {trial.kind for trial in plan.trials} == {"measure"}


def test_zipped_factors_move_together() -> None:
    plan = plan_of(
        "parameters: {load_pps: 0}\nfactors: {queues: [1, 2], rx_desc: [512, 256], burst: [8, 32]}\n"
        "zip: [[queues, rx_desc]]\nrepeats: {count: 1}\n"
    )
    pairs = {(trial.point.factors["queues"], trial.point.factors["rx_desc"]) for trial in plan.trials}
    assert pairs == {(1, 512), (2, 256)}
    assert len(plan.trials) == 4


def test_constraints_and_the_testbed_leave_points_out_with_their_reason() -> None:
    def refusal(point: Point) -> str | None:
        return "too few cores" if point.params.cores > 1 else None

    plan = plan_of(
        "parameters: {load_pps: 0}\nfactors: {cores: [1, 2], queues: [2, 128]}\nrepeats: {count: 1}\n"
        "constraints: [{drop: queues * rx_desc > 65535, reason: too many descriptors}]\n",
        refusal,
    )
    assert [trial.point.id for trial in plan.trials] == ["queues=2,cores=1"]
    reasons = {each.point: each.reason for each in plan.left_out}
    assert reasons == {
        "queues=128,cores=1": "too many descriptors",
        "queues=128,cores=2": "too many descriptors",
        "queues=2,cores=2": "too few cores",
    }


def test_constraints_read_the_knobs_that_are_swept() -> None:
    plan = plan_of(
        'parameters: {load_pps: 0}\nfactors: {knob.iommu: [strict, "off"], burst: [8, 32]}\nrepeats: {count: 1}\n'
        "constraints: [{drop: knob.iommu == 'off' and burst > 8, reason: one difference at a time}]\n"
    )
    assert [(each.point, each.reason) for each in plan.left_out] == [
        ("knob.iommu=off,burst=32", "one difference at a time")
    ]


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ("cores: 4, queues: 2", "4 polling lcores need as many RX queues, not 2"),
        (
            "cores: 2, dispatchers: 3, queues: 2, organisation: scale-up",
            "3 polling lcores need as many RX queues, not 2",
        ),
        ("cores: 4, queues: 1, organisation: locked", None),
        ("cores: 4, queues: 1, workload: tx, saturate: true", None),
        ("cores: 3, queues: 3, placement: smt-pairs", "smt-pairs: 3 cores make no whole number of pairs"),
        ("cores: 4, queues: 4, placement: smt-pairs", None),
    ],
)
def test_points_that_no_testbed_can_host_are_left_out(parameters: str, reason: str | None) -> None:
    load = "" if "saturate" in parameters else ", load_pps: 0"
    plan = plan_of(f"parameters: {{{parameters}{load}}}\nrepeats: {{count: 1}}\n")
    assert [each.reason for each in plan.left_out] == ([] if reason is None else [reason])


def test_baselines_lie_between_and_at_the_end() -> None:
    plan = plan_of(
        "parameters: {load_pps: 0}\nfactors: {queues: [1, 2, 4, 8]}\nrepeats: {count: 5}\n"
        "baseline: {point: {queues: 1}, metric: poll_rate_hz, every: 8}\n"
    )
    kinds = [trial.kind for trial in plan.trials]
    places = [index for index, kind in enumerate(kinds) if kind == "baseline"]
    assert places == [0, 9, 18, 23]
    assert len({trial.id for trial in plan.trials}) == len(plan.trials)


def test_a_baseline_load_gets_its_maximum() -> None:
    plan = plan_of(
        "factors: {queues: [1], load_of_max: [0 %]}\n"
        "baseline: {point: {queues: 2, load_of_max: 50 %}, metric: rx_pps}\n"
    )
    assert {trial.point.id for trial in plan.trials if trial.kind == "maximum"} == {"queues=2"}


def test_a_plan_without_points_has_no_trials() -> None:
    plan = plan_of("parameters: {load_pps: 0}\n", lambda _point: "no machine")
    assert plan.trials == []
    assert plan.seconds == 0
    assert [each.refused for each in plan.left_out] == [True]
    assert [each.reason for each in plan.left_out] == ["no machine"]


@pytest.mark.parametrize("pairs", [[], ["first", "second"]])
def test_the_longest_time_has_room_for_extra_blocks(pairs: list[str]) -> None:
    """Pairs share the repeats, so not every pair makes a first one; an extra block is made by each pair."""
    text = "parameters: {load_pps: 0}\nfactors: {queues: [1, 2, 4]}\nrepeats: {count: 5}\nnoise: {extra_blocks: 2}\n"
    spec = load_text(HEAD + text, "x.yaml").spec
    for plan in plan_parts(spec, [(name, hosts_all) for name in pairs or ["one"]]):
        block = sum(trial.seconds for trial in plan.further_round(plan.points, 9))
        assert plan.seconds_at_most == pytest.approx(plan.seconds + 2 * block)


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 1024), min_size=1, max_size=5, unique=True),
    st.lists(st.integers(0, 100), min_size=1, max_size=4, unique=True),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 9),
)
def test_counts(queues: list[int], loads: list[int], count: int, maxima: int, every: int) -> None:
    levels = ", ".join(f"{load} %" for load in loads)
    plan = plan_of(
        f"factors: {{queues: {queues}, load_of_max: [{levels}]}}\nrepeats: {{count: {count}}}\n"
        f"maximum: {{repeats: {maxima}}}\n"
        f"baseline: {{point: {{queues: {queues[0]}, load_of_max: 0 %}}, metric: rx_pps, every: {every}}}\n"
    )
    kinds = Counter(trial.kind for trial in plan.trials)
    measured = len(queues) * len(loads) * count
    assert kinds["measure"] == measured
    assert kinds["maximum"] == (len(queues) * maxima if any(loads) else 0)
    assert kinds["baseline"] == -(-measured // every) + 1
    assert len({trial.id for trial in plan.trials}) == len(plan.trials)
    assert plan.seconds > sum(trial.window_ns for trial in plan.trials) / 1e9


@pytest.mark.parametrize("repeat", [3, 4])
def test_further_rounds_do_not_depend_on_earlier_ones(repeat: int) -> None:
    plan = plan_of(
        "parameters: {load_pps: 0}\nfactors: {queues: {from: 1, to: 9, step: 1}}\n"
        "repeats: {until: {metric: rx_pps, within: 1 %, at_most: 9}}\n"
    )
    first = [trial.id for trial in plan.further_round(plan.points, repeat)]
    assert first == [trial.id for trial in plan.further_round(plan.points, repeat)]
    assert sorted(first) == sorted(f"measure:{point.id}:{repeat}" for point in plan.points)


KNOBS = (
    "parameters: {saturate: true}\n"
    "factors: {knob.turbo: [on, off], knob.c_states: [0, any], queues: [1, 2, 4]}\nrepeats: {count: 4}\n"
)


def knob_levels_of(plan: Plan) -> list[tuple[Any, Any]]:
    return [(trial.point.factors["knob.turbo"], trial.point.factors["knob.c_states"]) for trial in plan.trials]


def test_knobs_change_as_seldom_as_a_block_allows() -> None:
    plan = plan_of(KNOBS)
    levels = knob_levels_of(plan)
    turns = sum(first != second for first, second in pairwise(levels))
    assert turns == 4 * 3  # three between four combinations, none between blocks
    assert levels[:12] == levels[12:24][::-1] == levels[24:36]
    for block in range(4):
        points = {trial.point.id for trial in plan.trials[12 * block : 12 * block + 12]}
        assert len(points) == 12


def test_knob_levels_without_randomising_are_in_the_order_of_the_spec() -> None:
    plan = plan_of(KNOBS + "order: {randomise: false}\n")
    once = [("on", "0")] * 3 + [("on", "any")] * 3 + [("off", "0")] * 3 + [("off", "any")] * 3
    assert knob_levels_of(plan) == once * 4


def test_knob_levels_that_are_all_numbers_are_numbers() -> None:
    plan = plan_of("parameters: {load_pps: 0}\nfactors: {knob.mrrs@0000:17:00.0: [512, 0x1000]}\nrepeats: {count: 1}\n")
    assert {trial.point.factors["knob.mrrs@0000:17:00.0"] for trial in plan.trials} == {512, 4096}
    assert {trial.point.id for trial in plan.trials} == {
        "knob.mrrs@0000:17:00.0=512",
        "knob.mrrs@0000:17:00.0=4096",
    }


def test_maxima_belong_to_the_knob_levels() -> None:
    text = "factors: {knob.turbo: [on, off], load_of_max: [50 %, 100 %]}\nrepeats: {count: 1}\nmaximum: {repeats: 2}\n"
    plan = plan_of(text)
    assert {trial.maximum_of for trial in plan.trials if trial.kind == "measure"} == {"knob.turbo=on", "knob.turbo=off"}
    maxima = [trial.point.id for trial in plan.trials if trial.kind == "maximum"]
    assert maxima[1] == maxima[2]


def test_dots_in_the_name_of_a_knob_belong_to_it() -> None:
    settings = ("factors.knob.mrrs@0000:17:00.0=[256]", "knobs.aspm@0000:17:00.0=off", "factors.queues=[3]")
    spec = load_text(HEAD + "parameters: {load_pps: 0}\n", "x.yaml", Overrides(settings=settings)).spec
    assert spec.levels == {"knob.mrrs@0000:17:00.0": (256,), "queues": (3,)}
    assert spec.knobs == {"aspm@0000:17:00.0": "off"}


@pytest.mark.parametrize("seed", range(20))
def test_reboots_are_few_when_two_knobs_are_swept(seed: int) -> None:
    """One reboot for each mode of the IOMMU and block, less one where a block begins with the mode of the last."""
    plan = plan_of(
        "parameters: {load_pps: 0}\n"
        'factors: {knob.ddio: ["on", "off"], knob.iommu: ["off", passthrough, strict], burst: [8, 32]}\n'
        f"repeats: {{count: 4}}\norder: {{seed: {seed}}}\n"
    )
    modes = [trial.point.factors["knob.iommu"] for trial in plan.trials]
    reboots = 1 + sum(first != second for first, second in pairwise(modes))
    assert len(plan.trials) == 4 * 12
    assert reboots == 4 * 3 - 3
    for block in range(4):
        points = Counter(trial.point.id for trial in plan.trials[12 * block : 12 * block + 12])
        assert set(points.values()) == {1}
