# SPDX-License-Identifier: BSD-3-Clause
"""Names of events for `perf stat`, per processor generation (configs/platforms/events.yaml) and per IOMMU PMU."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

from pollscope.base.paths import data_folder
from pollscope.collectors.processor import Processor

# Common vocabulary for the IOMMU (see iotlb.py) -> events of the two PMUs.
_DMAR = {
    "iotlb_lookup": "iotlb_lookups",
    "iotlb_hit": "iotlb_hits",
    "pw_occupancy": "page_walk_occupancy",
    "iommu_clocks": "iommu_clocks",
    "iommu_requests": "iommu_requests",
    "iommu_mrds": "iommu_memory_accesses",
    "ctxt_cache_lookup": "context_cache_lookups",
    "ctxt_cache_hit": "context_cache_hits",
    "ss_nonleaf_lookup": "walk_cache_lookups",
    "ss_nonleaf_hit": "walk_cache_hits",
}
_AMD = {
    "mem_trans_total": "translations",
    "mem_iommu_tlb_pte_hit": "iotlb_hits",
    "mem_iommu_tlb_pte_mis": "iotlb_misses",
    "mem_iommu_tlb_pde_hit": "walk_cache_hits",
    "mem_iommu_tlb_pde_mis": "walk_cache_misses",
    "page_tbl_read_tot": "iommu_memory_accesses",
    "mem_dte_hit": "context_cache_hits",
    "mem_dte_mis": "context_cache_misses",
    "tlb_inv": "iotlb_invalidations",
}


class Event(NamedTuple):
    """One event as perf is asked for it and as it is reported: `scale` turns counts into `unit`."""

    perf_name: str
    name: str
    metric: str
    unit: str
    scale: float
    unit_path: str


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    metric: str
    pmu: str
    event: int
    umask: int = 0
    ch_mask: int | None = None
    fc_mask: int | None = None
    unit: str = "1"
    scale: float = 1
    counters: str = ""


class _Generation(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    vendor: str
    family: int
    models: list[int]
    events: list[_Entry]


@cache
def generations() -> list[_Generation]:
    """All generations of the table."""
    path = data_folder("configs") / "platforms" / "events.yaml"
    document = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return [_Generation.model_validate(entry) for entry in document["generations"]]


def generation_of(processor: Processor) -> _Generation | None:
    """The entry of the table for a processor; None when it has none."""
    return next(
        (
            g
            for g in generations()
            if (g.vendor, g.family) == (processor.vendor, processor.family) and processor.model in g.models
        ),
        None,
    )


def host_uncore_events(processor: Processor, pmus: Path) -> list[Event]:
    """Events of this generation for which the kernel has a PMU; IIO events once a stack, since a NIC sits on one."""
    generation = generation_of(processor)
    if generation is None or not pmus.exists():
        return []
    events = []
    for entry in generation.events:
        for pmu in sorted(pmus.glob(f"{entry.pmu}_[0-9]*"), key=lambda path: int(path.name.rpartition("_")[2])):
            number = pmu.name.rpartition("_")[2]
            events.append(_encoded(entry, pmu.name, number))
    return events


def _encoded(entry: _Entry, pmu: str, number: str) -> Event:
    """The name that perf shall print must not hold a dot or a slash: perf 6.1 refuses them in `name=`."""
    terms = {"event": entry.event, "umask": entry.umask, "ch_mask": entry.ch_mask, "fc_mask": entry.fc_mask}
    name = f"{pmu}__{entry.metric}"
    text = ",".join(f"{key}={value:#x}" for key, value in terms.items() if value is not None)
    # An IRP has the number of the IIO stack whose requests it orders.
    places = {"uncore_iio": f"stack{number}", "uncore_irp": f"stack{number}", "uncore_imc": f"channel{number}"}
    unit = places.get(entry.pmu, f"cha{number}")
    metric, _, part = entry.metric.partition("_part")  # as pcm-iio has it: dma_write of part 0
    unit = f"{unit}/part{part}" if part else unit
    return Event(f"{pmu}/{text},name={name}/", name, metric, entry.unit, entry.scale, unit)


def iommu_events(pmus: Path, prefix: str) -> list[Event]:
    """Events that the IOMMU's PMU offers here: its directory lists only those that the unit can count."""
    known = _DMAR if prefix == "dmar" else _AMD
    events = []
    for pmu in sorted(pmus.glob(f"{prefix}*")) if pmus.exists() else []:
        for name in sorted(path.name for path in (pmu / "events").glob("*")):
            metric = known.get(name, name)
            full = f"{pmu.name}/{name}/"
            events.append(Event(full, full, metric, "1", 1, f"iommu:{pmu.name}"))
    return events
