# SPDX-License-Identifier: BSD-3-Clause
"""Test lines of progress without a terminal: the trial, and how long the rest takes at the pace so far."""

import io
import time
from collections.abc import Callable

import pytest
from rich.console import Console

from pollscope.base.units import human_time
from pollscope.plan.plan import make_plan
from pollscope.run import progress
from pollscope.run.progress import Progress
from pollscope.spec import load_text

SPEC = """\
format: 1
name: progress
row: S-F5
title: t
parameters: {load_pps: 0}
factors: {burst: [8, 16, 32, 64]}
trial: {warmup: 0 ms, window: 10 s, drain: 0 ms}
order: {randomise: false}
repeats: {count: 1}
"""


@pytest.fixture
def elapse(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Advance the clock."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


def test_the_time_left_follows_the_pace_of_what_was_done(elapse: Callable[[float], None]) -> None:
    trials = make_plan(load_text(SPEC, "spec").spec, lambda _: None).trials
    screen = io.StringIO()
    shown = Progress(trials, Console(file=screen, width=200))
    for trial in trials[:3]:
        shown.trial(trial)
        elapse(10 * trial.seconds)
        shown.done(trial, None)
    whole_s, one_s = sum(trial.seconds for trial in trials), trials[0].seconds
    left = [line.partition(" left")[0].rpartition(", ")[2] for line in screen.getvalue().splitlines()]
    expected = [whole_s, 30 * one_s, 20 * one_s]
    assert left == [human_time(seconds) for seconds in expected]


def test_a_short_time_is_no_pace(elapse: Callable[[float], None]) -> None:
    trials = make_plan(load_text(SPEC.replace("10 s", "10 ms"), "spec").spec, lambda _: None).trials
    screen = io.StringIO()
    shown = Progress(trials, Console(file=screen, width=200))
    elapse(progress.PACE_AFTER_S / 2)
    shown.done(trials[0], None)
    shown.trial(trials[1])
    assert f"{human_time(3 * trials[1].seconds)} left" in screen.getvalue()
