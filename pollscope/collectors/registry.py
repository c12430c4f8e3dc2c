# SPDX-License-Identifier: BSD-3-Clause
"""All collectors by name: made with their options, or probed for `pollscope doctor`."""

from collections.abc import Callable
from difflib import get_close_matches

from pollscope.base.errors import PollscopeError, UsageError
from pollscope.base.names import COLLECTORS, load
from pollscope.collectors.interface import Collector, ProbeResult


def create(name: str, **options: object) -> Collector:
    """Return a collector by its name.

    Raises:
        UsageError: no collector has this name, or it does not have one of the options.
    """
    if name not in COLLECTORS:
        close = get_close_matches(name, COLLECTORS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(f"no collector {name!r}", "", f"{hint}one of: {', '.join(COLLECTORS)}")
    make: Callable[..., Collector] = load(COLLECTORS, name)
    try:
        return make(**options)
    except TypeError:
        raise UsageError(f"{name} has no option {', '.join(options)}", "", "see docs/reference-metrics.md") from None


def probe_all() -> dict[str, ProbeResult]:
    """Return every collector and whether it can work here, or the precise reason why not."""
    return {name: probe(name) for name in COLLECTORS}


def probe(name: str) -> ProbeResult:
    """Return whether a collector can work here, or the precise reason why not."""
    try:
        return create(name).probe()
    except (OSError, PollscopeError) as error:
        return ProbeResult(False, str(error))
