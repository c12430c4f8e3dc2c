# SPDX-License-Identifier: BSD-3-Clause
"""The knobs of a point: the values that its factors require, and why a host cannot provide them."""

from collections.abc import Mapping

from pollscope.base.errors import HostError, UsageError
from pollscope.base.knob_values import KNOB_PREFIX, split_key
from pollscope.knobs.host import KnobHost
from pollscope.knobs.session import would_change


def knob_settings(factors: Mapping[str, object]) -> dict[str, object]:
    """Return the knob factors among these factors, as `KnobSession.apply` wants them: NAME[@TARGET] -> value."""
    return {name.removeprefix(KNOB_PREFIX): level for name, level in factors.items() if name.startswith(KNOB_PREFIX)}


def knob_refusal(host: KnobHost, factors: Mapping[str, object]) -> str | None:
    """Return why a host cannot set the values of a point's knobs; None if it can. Write nothing."""
    for key, value in knob_settings(factors).items():
        name, target = split_key(key)
        try:
            would_change(host, name, target, value)
        except (HostError, UsageError) as error:
            return f"knob {key}: {str(error).removeprefix(f'{name}: ')}"
    return None
