# SPDX-License-Identifier: BSD-3-Clause
"""The collector that runs AMD uProf's AMDuProfPcm: memory channels, L3, PCIe and xGMI of EPYC processors."""

from collections.abc import Sequence

from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import amd_uprof_pcm
from pollscope.collectors.processor import read_processor
from pollscope.collectors.sources.pcm import obstacle
from pollscope.collectors.tool import ToolCollector

_LEAST_INTERVAL_MS = 1000
_ZEN_4_FAMILIES = {(25, model) for model in (*range(16, 32), *range(160, 176))}
_ZEN_5 = 26


class AmdUprofPcm(ToolCollector):
    """AMDuProfPcm, from AMD's own package: `PATH` must hold its folder (/opt/AMDuProf_VERSION/bin).

    It counts through perf, its default on Linux; groups of metrics by generation: uProf User Guide (57368), 5.1.
    """

    name, binary = "amd-uprof-pcm", "AMDuProfPcm"
    summary = "AMD EPYC: DRAM traffic per channel, L3, PCIe and xGMI"
    notes = "per second; L3 counts **per interval**; interval at least 1 s; PCIe and xGMI on Zen 4 and later"
    parser = staticmethod(amd_uprof_pcm.parse)
    owns_uncore = True  # uses all counters of L3 and data fabric: with other users they are multiplexed

    def probe(self) -> ProbeResult:
        if reason := obstacle("AuthenticAMD", "AMDuProfPcm needs an AMD", "the counters of L3 and data fabric"):
            return ProbeResult(False, reason)
        found = super().probe()
        advice = f"{found.reason} (AMD uProf, from amd.com; put its folder bin into PATH)"
        return found if found.available else ProbeResult(False, advice)

    def arguments(self, interval_ns: int) -> Sequence[str]:
        processor = read_processor()
        links = processor.family == _ZEN_5 or (processor.family, processor.model) in _ZEN_4_FAMILIES
        groups = "memory,l3,pcie,xgmi" if links else "memory,l3"
        interval_ms = max(interval_ns // 1_000_000, _LEAST_INTERVAL_MS)
        return ("-m", groups, "-a", "-A", "system,package", "-I", str(interval_ms))
