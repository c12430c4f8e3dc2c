# SPDX-License-Identifier: BSD-3-Clause
"""Limit the LLC ways that DMA writes may allocate in: by an MSR (Intel), or resctrl's io_alloc (AMD's SDCIAE)."""

from pathlib import Path

from pollscope.base.errors import HostError
from pollscope.knobs.base import HOST_TARGET, Availability, Knob, Refused, parse_whole
from pollscope.knobs.host import KnobHost, read_text, writable_reason, write_text
from pollscope.knobs.msr import MsrKnob
from pollscope.knobs.platforms import Absent, Platform, WaysRegister

_MOST_WAYS = 20
_FEWEST_WAYS = 2  # no published setting goes below the two ways of the reset value


def _parse_ways(knob: type[Knob], value: object) -> str:
    """Parse a number of ways ("4 ways") or a mask ("0x600")."""
    text = str(value).strip()
    # YAML hands over 0x600 as a number; no mask of two or more ways is as small as a number of ways.
    is_mask = text.startswith("0x") or (isinstance(value, int) and value > _MOST_WAYS)
    if is_mask:
        return f"{parse_whole(knob, value, 1, (1 << _MOST_WAYS) - 1):#x}"
    count = parse_whole(knob, value if isinstance(value, bool) else text.removesuffix("ways"), _FEWEST_WAYS, _MOST_WAYS)
    return f"{count} ways"


def _mask_of(value: str, ways: int) -> int:
    """Return the mask of a value of _parse_ways() for a cache with `ways` ways; 0 if it has fewer than needed."""
    return _ways_mask(int(value.split()[0]), ways) if value.endswith("ways") else int(value, 16)


def _ways_mask(count: int, ways: int) -> int:
    """Return the `count` highest of `ways` bits; 0 if there are fewer."""
    return ((1 << count) - 1) << (ways - count) if count <= ways else 0


_SWITCH, _MASKS = "io_alloc", "io_alloc_cbm"


class IoAllocWays(Knob):
    """info/L3/io_alloc and io_alloc_cbm (kernel documentation, filesystems/resctrl; Linux 6.19).

    The state is "disabled", or "enabled" and after a NUL the mask of every cache ("0=ffff;1=ffff"). Every cache gets
    the same ways: the switch is one for all of them.
    """

    name = "ddio_ways"
    summary = "LLC ways that devices may allocate in"
    values = "a number of ways (2 or more), or a mask such as 0x600"
    where = "resctrl `io_alloc`"

    @classmethod
    def is_on(cls, host: KnobHost) -> bool:
        """Return whether a host has it: resctrl is mounted, and the processor supports it."""
        switch = _folder(host) / _SWITCH
        return switch.exists() and read_text(switch).strip() in ("enabled", "disabled")

    def available(self) -> Availability:
        return Availability(writable_reason(_folder(self.host) / _SWITCH))

    def targets(self) -> list[str]:
        return [HOST_TARGET]

    @classmethod
    def parse(cls, value: object) -> str:
        return _parse_ways(cls, value)

    def read(self, target: str) -> str:
        switch = read_text(_folder(self.host) / _SWITCH).strip()
        return f"{switch}\0{read_text(_folder(self.host) / _MASKS).strip()}" if switch == "enabled" else switch

    def show(self, state: str) -> str:
        switch, _, masks = state.partition("\0")
        found = {int(each.partition("=")[2], 16) for each in masks.split(";") if each}
        return ", ".join(f"{mask:#x}" for mask in sorted(found)) if switch == "enabled" else switch

    def state_for(self, value: str, state: str, target: str) -> str:
        whole = int(read_text(_folder(self.host) / "cbm_mask").strip(), 16)
        ways = whole.bit_length()
        mask = _mask_of(value, ways)
        if not mask or mask & ~whole:
            raise Refused(f"the LLC has {ways} ways (mask {whole:#x}), not {value}", self.place(target))
        return "enabled\0" + ";".join(f"{cache}={mask:x}" for cache in self._caches())

    def write(self, target: str, state: str) -> None:
        switch, _, masks = state.partition("\0")
        self._tell(_SWITCH, "1" if switch == "enabled" else "0")
        for each in filter(None, masks.split(";")):
            self._tell(_MASKS, each)

    def _caches(self) -> list[str]:
        """Return numbers of the caches, from the masks of the group that all processors are in."""
        text = read_text(self.host.sysfs / "fs/resctrl/schemata")
        lines = (line.strip().partition(":") for line in text.splitlines())
        masks = next((masks for name, _, masks in lines if name.startswith("L3")), "")
        return [each.partition("=")[0] for each in masks.split(";") if each]

    def _tell(self, file: str, text: str) -> None:
        try:
            write_text(_folder(self.host) / file, f"{text}\n")
        except HostError as error:
            status = self.host.sysfs / "fs/resctrl/info/last_cmd_status"
            said = read_text(status).strip() if status.exists() else ""
            raise HostError(f"{error.what}{f' ({said})' if said else ''}", error.where) from error


def _folder(host: KnobHost) -> Path:
    """Return the folder of both files; with separate code and data masks (mount option cdp) either folder works."""
    info = host.sysfs / "fs/resctrl/info"
    return info / "L3CODE" if (info / "L3CODE").exists() else info / "L3"


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
        return _parse_ways(cls, value)

    def show(self, state: str) -> str:
        return f"{int(state, 16):#x}"

    def state_for(self, value: str, state: str, target: str) -> str:
        table = self.table()
        path = self.host.cpu_dir / f"cpu{self.cpu(target)}/cache/index3/ways_of_associativity"
        if path.exists() and (ways := int(path.read_text())) != table.ways:
            raise Refused(f"the LLC has {ways} ways, the platform table knows {table.ways}", f"{self.name} {target}")
        mask = _mask_of(value, table.ways)
        allowed = [_ways_mask(count, table.ways) for count in range(_FEWEST_WAYS, table.ways + 1)]
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
