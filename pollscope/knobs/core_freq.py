# SPDX-License-Identifier: BSD-3-Clause
"""Limits of the core clock: a fixed clock takes load and temperature out of cycles per second."""

from pathlib import Path

from pollscope.knobs.base import Refused
from pollscope.knobs.frequency_range import FrequencyRange
from pollscope.knobs.host import read_text


class CoreFreq(FrequencyRange):
    """scaling_min_freq and scaling_max_freq of a policy (kernel documentation, admin-guide/pm/cpufreq)."""

    name = "core_freq"
    summary = "lower and upper limit of the core clock of each cpufreq policy, in kHz"
    aims = "`policyN` (all)"
    where = "cpufreq"
    files = ("scaling_min_freq", "scaling_max_freq")

    def folder(self) -> Path:
        return self.host.cpufreq_dir

    def missing(self) -> str:
        return f"{self.folder()} holds no policy: the kernel has no frequency driver on this machine"

    def state_for(self, value: str, state: str, target: str) -> str:
        # The kernel takes what is beyond them, and holds the nearest that it can.
        lowest, highest = (int(read_text(self.folder() / target / f"cpuinfo_{end}_freq")) for end in ("min", "max"))
        low, high = map(int, value.split("-"))
        if not lowest <= low <= high <= highest:
            raise Refused(f"the processor has {lowest}-{highest} kHz, not {value}", self.place(target))
        return super().state_for(value, state, target)
