# SPDX-License-Identifier: BSD-3-Clause
"""Limit the LLC ways that DMA writes may allocate in (IIO LLC WAYS)."""

from pollscope.base.errors import HostError
from pollscope.knobs.base import HOST_TARGET, Knob, Refused
from pollscope.knobs.host import KnobHost
from pollscope.knobs.io_alloc import IoAllocWays
from pollscope.knobs.msr import MsrKnob
from pollscope.knobs.platforms import Absent, Platform, WaysRegister
from pollscope.knobs.ways import FEWEST_WAYS, mask_of, parse_ways, ways_mask


class DdioWays(MsrKnob[WaysRegister]):
    """MSR 0xC8B of a package ("package0"), a bit mask of ways that is contiguous from the highest way down.

    No public manual documents the register; the platform tables list what is known per generation.
    """

    name = "ddio_ways"
    summary = "LLC ways that DMA writes may allocate in, per package"
    values = "a number of ways (2 or more), or a mask such as 0x600"
    aims = "`packageN` (all)"
    where = "MSR 0xC8B, or resctrl's `io_alloc` for the whole host"

    @classmethod
    def on(cls, host: KnobHost) -> Knob:
        return IoAllocWays(host) if IoAllocWays.is_on(host) else cls(host)

    def that_has(self, target: str) -> Knob:
        """Return the knob that restores this target: after a reboot resctrl may not be mounted any more."""
        return IoAllocWays(self.host) if target == HOST_TARGET else self

    def targets(self) -> list[str]:
        return [f"package{number}" for number in self.host.packages()]

    @classmethod
    def parse(cls, value: object) -> str:
        return parse_ways(cls, value)

    def show(self, state: str) -> str:
        return f"{int(state, 16):#x}"

    def state_for(self, value: str, state: str, target: str) -> str:
        table = self.table()
        path = self.host.cpu_dir / f"cpu{self.cpu(target)}/cache/index3/ways_of_associativity"
        if path.exists() and (ways := int(path.read_text())) != table.ways:
            raise Refused(f"the LLC has {ways} ways, the platform table knows {table.ways}", f"{self.name} {target}")
        mask = mask_of(value, table.ways)
        allowed = [ways_mask(count, table.ways) for count in range(FEWEST_WAYS, table.ways + 1)]
        if mask not in allowed:
            masks = ", ".join(f"{entry:#x}" for entry in allowed)
            raise Refused(f"{value} is not a mask that is known to work here ({masks})", f"{self.name} {target}")
        field = (1 << table.ways) - 1
        return f"{int(state, 16) & ~field | mask:#018x}"

    def entry(self, platform: Platform) -> WaysRegister | Absent:
        return platform.ddio_ways

    def cpu(self, target: str) -> int:
        cpus = self.host.packages().get(int(target.removeprefix("package")))
        if not cpus:
            raise HostError("the package has no processor online", f"{self.name} {target}")
        return cpus[0]
