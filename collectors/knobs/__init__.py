# SPDX-License-Identifier: BSD-3-Clause
"""Knobs: host state that is set for an experiment and given back exactly as it was (docs/knobs.md).

with KnobSession("run S-F5", restore_first=False) as session:      # holds the host lock
    before = session.snapshot()                                    # for run.json
    session.set("ddio", "ens1f0", "off")                           # one knob
    session.apply({"governor": "performance", "mrrs@17:00.0": 4096})  # the knob factors of a point
# here everything is back, or NotGivenBack says what is not
"""

from pollscope.collectors.knobs.base import Availability, Knob, NotStuck, Refused
from pollscope.collectors.knobs.boot_note import boot_note, remove_boot_note, write_boot_note
from pollscope.collectors.knobs.giveback import Outcome, Policy
from pollscope.collectors.knobs.holding import Holding, NotGivenBack
from pollscope.collectors.knobs.host import Host
from pollscope.collectors.knobs.registry import NAMES, knobs_of, parse_setting, pick, split_key
from pollscope.collectors.knobs.session import (
    Change,
    ChangedUnderUs,
    KnobSession,
    LeftBehind,
    apply,
    left_behind,
    read_values,
    restore_all,
    snapshot,
)

__all__ = [
    "NAMES",
    "Availability",
    "Change",
    "ChangedUnderUs",
    "Holding",
    "Host",
    "Knob",
    "KnobSession",
    "LeftBehind",
    "NotGivenBack",
    "NotStuck",
    "Outcome",
    "Policy",
    "Refused",
    "apply",
    "boot_note",
    "knobs_of",
    "left_behind",
    "parse_setting",
    "pick",
    "read_values",
    "remove_boot_note",
    "restore_all",
    "snapshot",
    "split_key",
    "write_boot_note",
]
