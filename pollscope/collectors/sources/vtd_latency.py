# SPDX-License-Identifier: BSD-3-Clause
"""Invalidation latency histograms of the Intel IOMMU: debugfs `iommu/intel/dmar_perf_latency`.

They time invalidations (iotlb, devtlb, iec, svm_prq), not lookups. Counting is switched on by writing to the file,
which this collector does not do (it changes the host): it reads what somebody switched on.
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
    notes = "counter; read only: somebody else switches it on"
    parser = staticmethod(vtd_latency.parse)

    def probe(self) -> ProbeResult:
        try:
            _FILE.read_bytes()
        except OSError as error:
            return ProbeResult(False, f"{_FILE}: {error.strerror} (CONFIG_INTEL_IOMMU_DEBUGFS, root, an Intel IOMMU)")
        return ProbeResult(True, str(_FILE))

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", _FILE.read_bytes()
