# SPDX-License-Identifier: BSD-3-Clause
"""Energy performance bias: Intel's hint of before the energy performance preference; some parts still obey it."""

from pathlib import Path
from types import MappingProxyType

from pollscope.knobs.base import Availability, FileKnob, parse_whole
from pollscope.knobs.host import writable_reason

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

    def available(self) -> Availability:
        processors = self.targets()
        if not processors:
            return Availability("no processor has power/energy_perf_bias: no Intel processor with this hint")
        return Availability(writable_reason(self.file(processors[0])))

    def targets(self) -> list[str]:
        found = (path.parent.parent.name for path in self.host.cpu_dir.glob("cpu*/power/energy_perf_bias"))
        return sorted(found, key=lambda name: int(name.removeprefix("cpu")))

    @classmethod
    def parse(cls, value: object) -> str:
        word = str(value).strip().replace("_", "-")
        return str(_WORDS[word] if word in _WORDS else parse_whole(cls, value, 0, 15))

    def show(self, state: str) -> str:
        return state.strip()

    def state_for(self, value: str, state: str, target: str) -> str:
        return f"{value}\n"
