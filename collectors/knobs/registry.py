# SPDX-License-Identifier: BSD-3-Clause
"""All knobs by name."""

from collections.abc import Mapping
from types import MappingProxyType

from pollscope.collectors.knobs.aspm import Aspm
from pollscope.collectors.knobs.base import Knob
from pollscope.collectors.knobs.c_states import CStates
from pollscope.collectors.knobs.ddio import Ddio
from pollscope.collectors.knobs.ddio_ways import DdioWays
from pollscope.collectors.knobs.governor import Governor
from pollscope.collectors.knobs.host import Host
from pollscope.collectors.knobs.hugepages import Hugepages
from pollscope.collectors.knobs.iommu import Iommu
from pollscope.collectors.knobs.irq_affinity import IrqAffinity
from pollscope.collectors.knobs.mrrs import Mrrs
from pollscope.collectors.knobs.nmi_watchdog import NmiWatchdog
from pollscope.collectors.knobs.numa_balancing import NumaBalancing
from pollscope.collectors.knobs.prefetchers import Prefetchers
from pollscope.collectors.knobs.smt import Smt
from pollscope.collectors.knobs.turbo import Turbo
from pollscope.collectors.knobs.uncore_freq import UncoreFreq
from pollscope.errors import UsageError

_CLASSES: tuple[type[Knob], ...] = (
    Ddio,
    DdioWays,
    Iommu,
    Governor,
    Turbo,
    CStates,
    Smt,
    UncoreFreq,
    Prefetchers,
    Hugepages,
    IrqAffinity,
    NumaBalancing,
    Aspm,
    Mrrs,
    NmiWatchdog,
)
NAMES = tuple(knob.name for knob in _CLASSES)


def knobs_of(host: Host) -> Mapping[str, Knob]:
    """One object of each knob, for a host."""
    return MappingProxyType({knob.name: knob(host) for knob in _CLASSES})


def pick(knobs: Mapping[str, Knob], name: str) -> Knob:
    """A knob by name.

    Raises:
        UsageError: there is none.
    """
    if name not in knobs:
        raise UsageError(f"there is no knob {name!r}", remedy=f"knobs: {', '.join(NAMES)}")
    return knobs[name]


def split_key(key: str) -> tuple[str, str | None]:
    """Name and target of a setting's key: "mrrs@0000:17:00.0" or "governor"."""
    name, separator, target = key.partition("@")
    return name, target if separator else None


def parse_setting(key: str, value: object) -> str:
    """The canonical notation of a value, without looking at the host: what checks a spec on any machine.

    Raises:
        UsageError: no such knob, or no such value.
    """
    return pick(knobs_of(Host()), split_key(key)[0]).parse(value)
