# SPDX-License-Identifier: BSD-3-Clause
"""The knobs of a point: which values its factors ask for, and why a host cannot give them."""

from collections.abc import Mapping

from pollscope.base.errors import HostError, UsageError
from pollscope.base.knob_values import KNOB_PREFIX, split_key
from pollscope.knobs import Knob, KnobHost, knobs_of, pick


def knob_settings(factors: Mapping[str, object]) -> dict[str, object]:
    """The knob factors among these factors, as `KnobSession.apply` wants them: NAME[@TARGET] -> value."""
    return {name.removeprefix(KNOB_PREFIX): level for name, level in factors.items() if name.startswith(KNOB_PREFIX)}


def knob_refusal(host: KnobHost, factors: Mapping[str, object]) -> str | None:
    """Why a host cannot give a point the values of its knobs; None when it can. Nothing is written."""
    settings = knob_settings(factors)
    knobs = knobs_of(host) if settings else {}
    for key, value in settings.items():
        name, target = split_key(key)
        try:
            _try(pick(knobs, name), target, value)
        except (HostError, UsageError) as error:
            return f"knob {key}: {str(error).removeprefix(f'{name}: ')}"
    return None


def _try(knob: Knob, target: str | None, value: object) -> None:
    """What a session does before it writes; raises what it would raise."""
    wanted = knob.parse(value)
    targets = knob.select(target, wanted)
    states = [(each, knob.read(each)) for each in targets]
    moves = any(knob.show(knob.state_for(wanted, state, each)) != knob.show(state) for each, state in states)
    if not targets or (moves and not knob.available()):
        raise HostError(knob.available().reason or "the host has nothing that it could turn")
