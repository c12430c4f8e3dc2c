# SPDX-License-Identifier: BSD-3-Clause
"""Settings of knobs in a spec: names are checked by the table of names, a value by the knob that it is for."""

from difflib import get_close_matches

from pollscope.base.errors import UsageError
from pollscope.base.names import KNOBS, load

# A factor of this name turns a knob: `knob.governor`, `knob.mrrs@0000:17:00.0`.
KNOB_PREFIX = "knob."


def split_key(key: str) -> tuple[str, str | None]:
    """Split a setting's key into name and target: "mrrs@0000:17:00.0" or "governor"."""
    name, separator, target = key.partition("@")
    return name, target if separator else None


def known_knob(name: str) -> str:
    """Return the name.

    Raises:
        UsageError: there is no such knob.
    """
    if name not in KNOBS:
        close = get_close_matches(name, KNOBS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(f"there is no knob {name!r}", remedy=f"{hint}knobs: {', '.join(KNOBS)}")
    return name


def parse_setting(key: str, value: object) -> str:
    """Return the canonical notation of a value without reading the host, so that specs are checked on any machine.

    Raises:
        UsageError: no such knob, or no such value.
    """
    return str(load(KNOBS, known_knob(split_key(key)[0])).parse(value))
