# SPDX-License-Identifier: BSD-3-Clause
"""Limits of the uncore (mesh) clock, which sets the speed of LLC, memory controller and PCIe roots."""

import re
from pathlib import Path

from pollscope.knobs.base import Availability, Knob
from pollscope.knobs.host import read_text, writable_reason, write_text

_FILES = ("min_freq_khz", "max_freq_khz")


class UncoreFreq(Knob):
    """intel_uncore_frequency/package_PP_die_DD (kernel documentation, admin-guide/pm/intel_uncore_frequency_scaling).

    A value is the lower and the upper limit in kHz, "1200000-2400000", or one number that fixes the clock. The state
    is the content of both files with a NUL between them.
    """

    name = "uncore_freq"
    summary = "lower and upper limit of the uncore clock of each die, in kHz"
    values = "LOW-HIGH or one frequency, in kHz (1200000-2400000)"
    aims = "`package_PP_die_DD` (all)"
    where = "`intel_uncore_frequency`"

    def available(self) -> Availability:
        dies = self.targets()
        if not dies:
            return Availability(f"{self._root()} holds no die: no Intel server processor, or the driver is not loaded")
        return Availability(writable_reason(self._root() / dies[0] / _FILES[0]))

    def targets(self) -> list[str]:
        return sorted(path.parent.name for path in self._root().glob(f"*/{_FILES[0]}"))

    @classmethod
    def parse(cls, value: object) -> str:
        match = re.fullmatch(r"\s*(\d{5,8})(?:\s*-\s*(\d{5,8}))?\s*", str(value))
        if not match:
            raise cls.bad_value(value)
        low, high = int(match[1]), int(match[2] or match[1])
        if low > high:
            raise cls.bad_value(value)
        return f"{low}-{high}"

    def read(self, target: str) -> str:
        return "\0".join(read_text(self._root() / target / name) for name in _FILES)

    def show(self, state: str) -> str:
        return "-".join(part.strip() for part in state.split("\0"))

    def state_for(self, value: str, state: str, target: str) -> str:
        return "\0".join(f"{limit}\n" for limit in value.split("-"))

    def write(self, target: str, state: str) -> None:
        """Writes the limit first that moves away from the other one, so that low never stands above high."""
        wanted = dict(zip(_FILES, state.split("\0"), strict=True))
        present_high = int(read_text(self._root() / target / _FILES[1]))
        rising = int(wanted[_FILES[0]]) > present_high
        for name in reversed(_FILES) if rising else _FILES:
            write_text(self._root() / target / name, wanted[name])

    def _root(self) -> Path:
        return self.host.cpu_dir / "intel_uncore_frequency"
