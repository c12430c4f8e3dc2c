# SPDX-License-Identifier: BSD-3-Clause
"""Energy performance preference: how eagerly a processor that chooses its own clock (HWP, CPPC) raises it."""

from pathlib import Path

from pollscope.knobs.base import FileKnob, Refused, in_order
from pollscope.knobs.host import read_text

_FILE = "energy_performance_preference"


class Epp(FileKnob):
    """energy_performance_preference of a policy (kernel documentation, admin-guide/pm/intel_pstate and amd-pstate)."""

    name = "epp"
    summary = "energy performance preference of each cpufreq policy"
    values = "a preference that the driver offers, for instance performance, balance_performance, power, or 0 to 255"
    aims = "`policyN` (all)"
    where = "cpufreq"

    def file(self, target: str) -> Path:
        return self.host.cpufreq_dir / target / _FILE

    def missing(self) -> str:
        return f"no policy of {self.host.cpufreq_dir} has a preference: the driver chooses the clock"

    def targets(self) -> list[str]:
        return in_order(path.parent.name for path in self.host.cpufreq_dir.glob(f"policy*/{_FILE}"))

    @classmethod
    def parse(cls, value: object) -> str:
        word = str(value).strip()
        number = int(word) if word.isascii() and word.isdecimal() and len(word) <= 3 else None
        if isinstance(value, bool) or (number is None and not word.isidentifier()) or (number or 0) > 255:
            raise cls.bad_value(value)
        return word if number is None else str(number)

    def state_for(self, value: str, state: str, target: str) -> str:
        policy = self.host.cpufreq_dir / target
        offered = read_text(policy / "energy_performance_available_preferences").split()
        if not value.isdecimal() and value not in offered:
            raise Refused(f"the driver offers {', '.join(offered)}, not {value}", self.place(target))
        if read_text(policy / "scaling_governor").strip() == "performance" and value not in ("performance", "0"):
            raise Refused("the governor performance fixes the preference: set governor first", self.place(target))
        return super().state_for(value, state, target)
