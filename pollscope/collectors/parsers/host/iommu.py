# SPDX-License-Identifier: BSD-3-Clause
"""The state of the IOMMU as recorded, `what key value` lines of any host, or lines of a kernel log."""

import re
from collections.abc import Iterable, Iterator

from pollscope.collectors.parsing import Origin, numbered
from pollscope.collectors.sample import Kind, Reading, SourceMetric, Value, reading

_TYPES = {"DMA": "strict", "DMA-FQ": "lazy", "identity": "passthrough", "unmanaged": "unmanaged", "blocked": "blocked"}
_OPTIONS = re.compile(r"(?:intel_iommu|amd_iommu|iommu|iommu\.passthrough|iommu\.strict|vfio\.\S+?)=\S*")
_LOG = (
    (re.compile(r"DMAR: IOMMU enabled"), "log.intel_iommu", "enabled"),
    (re.compile(r"AMD-Vi: .*[Ee]nabl"), "log.amd_iommu", "enabled"),
    (re.compile(r"iommu: Default domain type: (\w+)"), "log.default_domain", ""),
    (re.compile(r"iommu: DMA domain TLB invalidation policy: (\w+) mode"), "log.invalidation", ""),
)
# Kernel drivers whose devices get a VFIO domain whatever the type of their group (the default domain's): translated by
# a permanent mapping (Documentation/driver-api/vfio.rst).
_VFIO = ("vfio-pci", "mlx5_vfio_pci")
_STATE = SourceMetric("translation", "", Kind.STATE)


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read a listing of sources/host.py, or lines of a kernel log; the log alone proves nothing, and the result says
    so.
    """
    units, devices, options, log, noiommu = [], list[list[str]](), list[str](), dict[str, str](), "-"
    listed = False
    for number, text in numbered(lines, origin):
        word, _, rest = text.strip().partition(" ")
        if word == "unit":
            units.append(rest)
        elif word == "device" and len(rest.split()) == 4:
            devices.append(rest.split())
        elif word == "cmdline":
            options, listed = _OPTIONS.findall(rest), True
        elif word == "unsafe_noiommu":
            noiommu = rest
        elif (found := _log_line(text)) is not None:
            log.update(found)
        elif text.strip():
            origin.leave_out(number, f"no state of an IOMMU: {text[:60]!r}")
    if not listed and not log:
        raise origin.refuse(0, "no state of an IOMMU in it", "record with: pollscope collect iommu")
    t_ns = origin.now()
    yield reading(t_ns, "system", _system(units, options, log, noiommu, listed))
    for address, group, kind, driver in devices:
        yield reading(t_ns, f"device:{address}", _device(bool(units), group, kind, driver))


def _log_line(text: str) -> dict[str, str] | None:
    for pattern, name, value in _LOG:
        match = pattern.search(text)
        if match:
            return {name: value or match[1]}
    return None


def _system(
    units: list[str], options: list[str], log: dict[str, str], noiommu: str, listed: bool
) -> Iterator[tuple[SourceMetric, Value, str]]:
    only_log = "the kernel log alone is no evidence: it prints these lines without any IOMMU"
    yield SourceMetric("iommu_units", "1", Kind.STATE), len(units) if listed else None, only_log
    yield _STATE, ("off" if not units else "on") if listed else None, only_log
    yield SourceMetric("kernel_options", "", Kind.STATE), " ".join(options) if listed else None, only_log
    yield SourceMetric("vfio_without_iommu", "", Kind.STATE), None if noiommu == "-" else noiommu, "vfio is not loaded"
    for name, value in log.items():
        yield SourceMetric(name, "", Kind.STATE), value, ""


def _device(active: bool, group: str, kind: str, driver: str) -> Iterator[tuple[SourceMetric, Value, str]]:
    if not active or group == "-":
        yield _STATE, "off", ""
    elif driver in _VFIO:
        yield _STATE, "vfio", ""
    else:
        yield _STATE, _TYPES.get(kind), f"group {group} is of type {kind!r} (kernel before 5.11 has none)"
    yield (
        SourceMetric("iommu_group", "", Kind.STATE),
        None if group == "-" else group,
        "the device is in no IOMMU group",
    )
    yield SourceMetric("driver", "", Kind.STATE), None if driver == "-" else driver, "no driver is bound"
