# SPDX-License-Identifier: BSD-3-Clause
"""All knobs by name."""

from collections.abc import Mapping
from types import MappingProxyType

from pollscope.base.knob_values import known_knob
from pollscope.base.names import KNOBS, load
from pollscope.knobs.base import Knob
from pollscope.knobs.host import KnobHost


def knobs_of(host: KnobHost) -> Mapping[str, Knob]:
    """Return one object of each knob, for a host."""
    return MappingProxyType({name: load(KNOBS, name).on(host) for name in KNOBS})


def pick(knobs: Mapping[str, Knob], name: str) -> Knob:
    """Return a knob by name.

    Raises:
        UsageError: there is none.
    """
    return knobs[known_knob(name)]
