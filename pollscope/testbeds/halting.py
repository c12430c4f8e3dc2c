# SPDX-License-Identifier: BSD-3-Clause
"""Check that a core of a processor can halt until a line is written."""

from collections.abc import Callable, Mapping

from pollscope.spec.model import Parameters

# Sets of flags of /proc/cpuinfo, one of which is needed (DPDK's rte_power_intrinsics.h), and names for them.
LINE = (("waitpkg",), ("mwaitx",)), "a line (WAITPKG or MWAITX)"
LINES = (("waitpkg", "rtm"),), "several lines (WAITPKG and RTM)"
UMWAIT = (("waitpkg",),), "a line by UMWAIT (WAITPKG)"


def halt_refusal(params: Parameters, flags: Callable[[], Mapping[str, bool]]) -> str | None:
    """Return why a processor with these flags cannot wait as a point requires; None if it can. Reads the flags only if
    needed.
    """
    needs = {
        ("notification", "monitor"): LINE,
        ("notification", "monitor-multi"): LINES,
        ("idle", "umwait"): UMWAIT,
    }
    for (name, level), (sets, where) in needs.items():
        if getattr(params, name) == level:
            found = flags()
            if not any(all(found.get(flag) for flag in each) for each in sets):
                return f"{name} {level} needs a processor that can halt on {where}"
    return None
