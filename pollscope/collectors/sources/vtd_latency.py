# SPDX-License-Identifier: BSD-3-Clause
"""Invalidation latency histograms of the Intel IOMMU: debugfs `iommu/intel/dmar_perf_latency`.

They time invalidations (iotlb, devtlb, iec, svm_prq), not lookups. The knob vtd_latency switches them on; this
collector does not change the host.
"""

from collections.abc import Iterable
from pathlib import Path

from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import vtd_latency
from pollscope.collectors.polling import PollingCollector

_FILE = Path("/sys/kernel/debug/iommu/intel/dmar_perf_latency")


class VtdLatency(PollingCollector):
    """Reads the histograms."""

    name, summary = "vtd-latency", "invalidation latency of the Intel IOMMU (debugfs)"
    notes = "counter; the knob `vtd_latency` switches it on"
    parser = staticmethod(vtd_latency.parse)

    def probe(self) -> ProbeResult:
        try:
            _FILE.read_bytes()
        except OSError as error:
            return ProbeResult(False, f"{_FILE}: {error.strerror} (CONFIG_INTEL_IOMMU_DEBUGFS, root, an Intel IOMMU)")
        return ProbeResult(True, str(_FILE))

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", _FILE.read_bytes()
