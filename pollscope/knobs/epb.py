# SPDX-License-Identifier: BSD-3-Clause
"""Energy performance bias: Intel's hint of before the energy performance preference; some parts still obey it."""

from pathlib import Path
from types import MappingProxyType

from pollscope.knobs.base import FileKnob, in_order, parse_whole

# kernel documentation, admin-guide/pm/intel_epb
_WORDS = MappingProxyType(
    {"performance": 0, "balance-performance": 4, "normal": 6, "balance-power": 8, "power": 15},
)


class Epb(FileKnob):
    """power/energy_perf_bias of a processor (MSR 0x1B0)."""

    name = "epb"
    summary = "energy performance bias of each processor, 0 is the most performance"
    values = f"0 to 15, or {', '.join(_WORDS)}"
    aims = "`cpuN` (all)"
    where = "`power/energy_perf_bias`"
    holder = "hardware"

    def file(self, target: str) -> Path:
        return self.host.cpu_dir / target / "power/energy_perf_bias"

    def missing(self) -> str:
        return "no processor has power/energy_perf_bias: no Intel processor with this hint"

    def targets(self) -> list[str]:
        return in_order(path.parent.parent.name for path in self.host.cpu_dir.glob("cpu*/power/energy_perf_bias"))

    @classmethod
    def parse(cls, value: object) -> str:
        word = str(value).strip().replace("_", "-")
        return str(_WORDS[word] if word in _WORDS else parse_whole(cls, value, 0, 15))
