# SPDX-License-Identifier: BSD-3-Clause
"""Names of events for `perf stat`: per processor generation (configs/platforms/events.yaml), and of PMUs that name
their events themselves (IOMMUs, Arm's mesh).

The name that perf prints identifies an event completely, so it can be parsed anywhere.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

from pollscope.base.paths import data_folder
from pollscope.collectors.counter_names import counter_names
from pollscope.collectors.processor import Processor

# Common vocabulary for the IOMMU (see iotlb.py) -> events of the two PMUs. Only these are requested: with all events of
# the AMD PMU, each would be counted for a third of the time.
_DMAR = counter_names("pmu-dmar")
_AMD = counter_names("pmu-amd-iommu")
# Arm's mesh (CMN): the system-level cache (HN-F), and the nodes at which devices are (RN-I, RN-D; flits of 32 B).
_CMN = counter_names("pmu-arm-cmn")
_NAMING_PMUS = {"dmar": ("iommu", _DMAR), "amd_iommu": ("iommu", _AMD), "arm_cmn": ("mesh", _CMN)}
# perf prints the requested name, or the event's own.
_GIVEN = re.compile(r"(uncore_[a-z]+|amd_umc|amd_df)(?:_(\d+))?__(\w+)")
_OWN = re.compile(r"((dmar|amd_iommu|arm_cmn)(?:_?\d+)?)/(\w+)/")
_PART = re.compile(r"(.*)_((?:part|io)\d+)")


class Event(NamedTuple):
    """One event, as requested from perf and as reported: `scale` converts counts to `unit`."""

    perf_name: str
    metric: str
    unit: str
    scale: float
    unit_path: str


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    metric: str
    pmu: str
    event: int
    umask: int | None = 0
    rdwrmask: int | None = None
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
    first_port: int | None = None
    events: list[_Entry]


@cache
def generations() -> list[_Generation]:
    """Return all generations of the table."""
    path = data_folder("configs") / "platforms" / "events.yaml"
    document = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return [_Generation.model_validate(entry) for entry in document["generations"]]


def generation_of(processor: Processor) -> _Generation | None:
    """Return the entry of the table for a processor; None when it has none."""
    return next(
        (
            g
            for g in generations()
            if (g.vendor, g.family) == (processor.vendor, processor.family) and processor.model in g.models
        ),
        None,
    )


def host_uncore_events(processor: Processor, pmus: Path) -> list[Event]:
    """Return this generation's events that have a PMU; IIO events once per stack, as a NIC sits on one."""
    generation = generation_of(processor)
    entries = generation.events if generation else []
    asked = [_asked(entry, pmu) for entry in entries for pmu in _those(pmus, entry.pmu)]
    return [*asked, *named_events(pmus, "arm_cmn")]


def _those(pmus: Path, kind: str) -> list[str]:
    """Return the PMUs of a kind by number: `amd_df`, `dmar0`, `uncore_iio_0`, `uncore_iio_1`, ..."""
    names = [path.name for path in pmus.glob(f"{kind}*") if re.fullmatch(rf"{kind}_?\d*", path.name)]
    return sorted(names, key=lambda name: int(name.removeprefix(kind).lstrip("_") or 0))


def _asked(entry: _Entry, pmu: str) -> Event:
    """Return the name that perf shall print, without dots and slashes: perf 6.1 refuses them in `name=`."""
    terms = {term: getattr(entry, term) for term in ("event", "umask", "rdwrmask", "ch_mask", "fc_mask")}
    text = ",".join(f"{key}={value:#x}" for key, value in terms.items() if value is not None)
    name = f"{pmu}__{entry.metric}"
    event = printed_event(name)
    assert event is not None, "BUG: the name of an event of the table is not understood"
    return event._replace(perf_name=f"{pmu}/{text},name={name}/")


def named_events(pmus: Path, kind: str) -> list[Event]:
    """Return the kernel's named events of this kind of PMU, as far as a metric uses them."""
    offered = (path for pmu in _those(pmus, kind) for path in sorted((pmus / pmu / "events").glob("*")))
    events = (printed_event(f"{path.parts[-3]}/{path.name}/") for path in offered)
    return [event for event in events if event is not None]


@cache
def printed_event(name: str) -> Event | None:
    """Return the event that perf prints as `name`; None when this package asks for no such event."""
    if given := _GIVEN.fullmatch(name):
        return next(_of_table(name, given[1], given[2] or "", given[3]), None)
    own = _OWN.fullmatch(name)
    if own is None:
        return None
    place, metrics = _NAMING_PMUS[own[2]]
    metric = metrics.get(own[3])
    return Event(name, metric, "1", 1, f"{place}:{own[1]}") if metric else None


def _of_table(name: str, pmu: str, number: str, metric: str) -> Iterator[Event]:
    """Yield the event; unit and factor of a metric are the same in all generations."""
    # An IRP has the number of the IIO stack whose requests it orders.
    kinds = {"uncore_iio": "stack", "uncore_irp": "stack", "uncore_imc": "channel", "amd_umc": "channel"}
    place = f"{kinds.get(pmu, 'cha')}{number}" if number else ""
    part = _PART.fullmatch(metric)  # as pcm-iio has it: dma_write of part 0
    for entry in (entry for generation in generations() for entry in generation.events):
        if (entry.pmu, entry.metric) == (pmu, metric):
            path = "/".join(filter(None, (place, part[2] if part else "")))
            yield Event(name, part[1] if part else metric, entry.unit, entry.scale, path)
