# SPDX-License-Identifier: BSD-3-Clause
"""Knobs: host state that is set for an experiment and restored exactly as it was (docs/reference-metrics.md).

with KnobSession("run S-F5", restore_first=False) as session:      # holds the host lock
    before = session.snapshot()                                    # for run.json
    session.set("ddio", "ens1f0", "off")                           # one knob
    session.apply({"governor": "performance", "mrrs@17:00.0": 4096})  # the knob factors of a point
# here everything is restored, or NotRestored says what is not
"""

from pollscope.host.restore import NotStuck, Policy, RestoreResult
from pollscope.knobs.base import Knob, Refused
from pollscope.knobs.holding import Holding, Knobs, NotRestored
from pollscope.knobs.host import KnobHost
from pollscope.knobs.session import (
    ChangedUnderUs,
    KnobSession,
    LeftBehind,
    knobs_of,
    pick,
    read_values,
    restore_all,
    snapshot,
)

__all__ = [
    "ChangedUnderUs",
    "Holding",
    "Knob",
    "KnobHost",
    "KnobSession",
    "Knobs",
    "LeftBehind",
    "NotRestored",
    "NotStuck",
    "Policy",
    "Refused",
    "RestoreResult",
    "knobs_of",
    "pick",
    "read_values",
    "restore_all",
    "snapshot",
]
