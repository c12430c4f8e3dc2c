# SPDX-License-Identifier: BSD-3-Clause
"""Which invalidations the Intel IOMMU times: what the collector vtd-latency reads."""

from pathlib import Path
from types import MappingProxyType

from pollscope.knobs.base import HOST_TARGET, FileKnob
from pollscope.knobs.host import write_text

# Number that switches each on, and its row in the file (drivers/iommu/intel/debugfs.c); 0 switches all off.
_KINDS = MappingProxyType({"iotlb": 1, "devtlb": 2, "iec": 3, "svm_prq": 4})
_ROWS = MappingProxyType({"inv_iotlb": "iotlb", "inv_devtlb": "devtlb", "inv_iec": "iec", "svm_prq": "svm_prq"})


class TimedInvalidations(FileKnob):
    """debugfs iommu/intel/dmar_perf_latency, which prints a row for each kind that is timed.

    The state is the kinds, joined by commas: the file is not read as it is written. What had been counted before is
    lost, because the kernel begins again.
    """

    name = "vtd_latency"
    summary = "which invalidations of the Intel IOMMU are timed (collector vtd-latency)"
    values = f"off, or some of {','.join(_KINDS)}"
    where = "debugfs `dmar_perf_latency`"

    def file(self, target: str = HOST_TARGET) -> Path:
        return self.host.sysfs / "kernel/debug/iommu/intel/dmar_perf_latency"

    def missing(self) -> str:
        return f"{self.file()} does not exist (CONFIG_INTEL_IOMMU_DEBUGFS, root, an Intel IOMMU)"

    def targets(self) -> list[str]:
        try:
            return [HOST_TARGET] if self.file().exists() else []
        except PermissionError:  # debugfs is for root alone
            return []

    @classmethod
    def parse(cls, value: object) -> str:
        word = "off" if value is False else str(value).strip().lower()
        kinds = {each.strip() for each in word.split(",")}
        if word == "off":
            return "off"
        if not kinds <= set(_KINDS):
            raise cls.bad_value(value)
        return ",".join(kind for kind in _KINDS if kind in kinds)

    def read(self, target: str) -> str:
        words = (line.split() for line in super().read(target).splitlines())
        rows = {_ROWS[each[0]] for each in words if each and each[0] in _ROWS}
        return ",".join(kind for kind in _KINDS if kind in rows)

    def show(self, state: str) -> str:
        return state or "off"

    def state_for(self, value: str, state: str, target: str) -> str:
        return "" if value == "off" else value

    def write(self, target: str, state: str) -> None:
        write_text(self.file(), "0\n")
        for kind in filter(None, state.split(",")):
            write_text(self.file(), f"{_KINDS[kind]}\n")
