# SPDX-License-Identifier: BSD-3-Clause
"""Limit the LLC ways that devices may allocate in, through the kernel (resctrl's io_alloc, AMD's SDCIAE)."""

from pathlib import Path

from pollscope.base.errors import HostError
from pollscope.knobs.base import HOST_TARGET, Availability, Knob, Refused
from pollscope.knobs.host import KnobHost, read_text, writable_reason, write_text
from pollscope.knobs.ways import mask_of, parse_ways

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
        return parse_ways(cls, value)

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
        mask = mask_of(value, ways)
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
