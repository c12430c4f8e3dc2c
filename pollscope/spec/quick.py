# SPDX-License-Identifier: BSD-3-Clause
"""`--quick` of a spec without a `quick` section, and what a shortened run leaves out, in words."""

from typing import Any

from pollscope.base.document import Document
from pollscope.base.fields import expand_levels
from pollscope.base.units import counted, human_time
from pollscope.spec.model import Spec

# Enough for both ends and the middle of a sweep, for confidence intervals, and for many packets per window.
LEVELS = 3
REPEATS = 3
WARMUP_NS, WINDOW_NS = 50_000_000, 200_000_000


def shortened(document: Document, spec: Spec) -> dict[str, Any]:
    """Return a `quick` section for a spec without one: three levels per factor, short windows, three repeats."""
    given = document.data.get("factors") or {}
    written = {name: expand_levels(levels) for name, levels in given.items()}
    factors = {
        name: levels if len(levels) <= LEVELS else [levels[0], levels[len(levels) // 2], levels[-1]]
        for name, levels in written.items()
        if isinstance(levels, list)
    }
    trial = {
        "warmup": f"{min(spec.trial.warmup_ns, WARMUP_NS)} ns",
        "window": f"{min(spec.trial.window_ns, WINDOW_NS)} ns",
    }
    return {"factors": factors, "trial": trial, "repeats": {"count": min(spec.repeats.at_least, REPEATS)}}


def left_out(whole: Spec, quick: Spec) -> list[str]:
    """Return one phrase for each part of a spec that its quick form leaves out or changes."""
    kept = quick.levels
    levels = [(name, len(kept.get(name, ())), len(levels)) for name, levels in whole.levels.items()]
    said = [f"{name}: {number} of {of} levels" for name, number, of in levels if number < of]
    parameters = ((name, value, getattr(quick.parameters, name)) for name, value in whole.parameters)
    if other := [name for name, value, changed in parameters if value != changed]:
        said.append(f"another {', '.join(other)}")
    if quick.trial.window_ns < whole.trial.window_ns:
        windows = (human_time(each.trial.window_ns / 1e9) for each in (quick, whole))
        said.append("windows of {} instead of {}".format(*windows))
    if (quick.repeats.at_least, quick.repeats.until) != (whole.repeats.at_least, whole.repeats.until):
        said.append(f"{_repeats_text(quick)} instead of {_repeats_text(whole)}")
    return said


def _repeats_text(spec: Spec) -> str:
    until = spec.repeats.narrow
    if spec.repeats.decided:
        return f"repeats for at most {human_time((spec.repeats.at_most_ns or 0) / 1e9)}"
    if until is not None:
        return f"{until.at_least} to {until.at_most} repeats"
    return counted(spec.repeats.at_least, "repeat")
