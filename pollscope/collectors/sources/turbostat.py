# SPDX-License-Identifier: BSD-3-Clause
"""The collector that runs turbostat."""

import os
from collections.abc import Sequence

from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import turbostat
from pollscope.collectors.sources.pcm import no_msr
from pollscope.collectors.tool import ToolCollector


class Turbostat(ToolCollector):
    """turbostat needs MSRs; its least interval is 1 ms, below 0.1 s it is load itself."""

    name, summary = "turbostat", "turbostat: frequency, C-states, power, throttling"
    binary, package = "turbostat", "linux-cpupower"
    notes = "gauge; Busy% and IPC of a spinning core say nothing about its load"
    parser = staticmethod(turbostat.parse)

    def probe(self) -> ProbeResult:
        found = super().probe()
        reason = "not root" if os.geteuid() else no_msr()
        return ProbeResult(False, reason) if found.available and reason else found

    def arguments(self, interval_ns: int) -> Sequence[str]:
        return ("--quiet", "--interval", f"{max(interval_ns / 1e9, 0.1):g}")
