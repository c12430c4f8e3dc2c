# SPDX-License-Identifier: BSD-3-Clause
"""The collector that runs turbostat."""

import os
from collections.abc import Sequence
from pathlib import Path

from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import turbostat
from pollscope.collectors.tool import ToolCollector


class Turbostat(ToolCollector):
    """turbostat needs MSRs; its least interval is 1 ms, below 0.1 s it is load itself."""

    name, summary = "turbostat", "turbostat: frequency, C-states, power, throttling"
    binary, package = "turbostat", "linux-cpupower"
    notes = "gauge; Busy% and IPC of a spinning core say nothing about its load"
    parser = staticmethod(turbostat.parse)

    def probe(self) -> ProbeResult:
        availability = super().probe()
        if not availability.available:
            return availability
        if os.geteuid() != 0:
            return ProbeResult(False, "not root")
        if not Path("/dev/cpu/0/msr").exists():
            return ProbeResult(False, "no MSR device /dev/cpu/0/msr (modprobe msr)")
        return availability

    def arguments(self, interval_ns: int) -> Sequence[str]:
        return ("--quiet", "--interval", f"{max(interval_ns / 1e9, 0.1):g}")
