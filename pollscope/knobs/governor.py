# SPDX-License-Identifier: BSD-3-Clause
"""The frequency governor of each cpufreq policy."""

from pathlib import Path

from pollscope.knobs.base import FileKnob, Refused, in_order
from pollscope.knobs.host import read_text, write_text

_GOVERNOR = "scaling_governor"
_PREFERENCE = "energy_performance_preference"


class Governor(FileKnob):
    """scaling_governor; a target is a policy ("policy0").

    The state holds the energy preference as well, after a NUL: some drivers move it together with the governor, and
    restoring the governor alone would leave it changed.
    """

    name = "governor"
    summary = "frequency governor of each cpufreq policy"
    values = "a governor that the driver offers, for instance performance, powersave, schedutil"
    aims = "`policyN` (all)"
    where = "cpufreq; the energy preference is restored with it"

    def file(self, target: str) -> Path:
        return self.host.cpufreq_dir / target / _GOVERNOR

    def missing(self) -> str:
        return f"{self.host.cpufreq_dir} holds no policy: the kernel has no frequency driver on this machine"

    def targets(self) -> list[str]:
        return in_order(path.parent.name for path in self.host.cpufreq_dir.glob(f"policy*/{_GOVERNOR}"))

    @classmethod
    def parse(cls, value: object) -> str:
        word = str(value).strip()
        if isinstance(value, bool) or not word.isidentifier():
            raise cls.bad_value(value)
        return word

    def read(self, target: str) -> str:
        preference = self.host.cpufreq_dir / target / _PREFERENCE
        return super().read(target) + ("\0" + read_text(preference) if preference.exists() else "")

    def show(self, state: str) -> str:
        return state.partition("\0")[0].strip()

    def state_for(self, value: str, state: str, target: str) -> str:
        offered = read_text(self.host.cpufreq_dir / target / "scaling_available_governors").split()
        if value not in offered:
            raise Refused(f"the driver offers {', '.join(offered)}, not {value}", f"{self.name} {target}")
        _, separator, preference = state.partition("\0")
        return f"{value}\n{separator}{preference}"

    def write(self, target: str, state: str) -> None:
        policy = self.host.cpufreq_dir / target
        governor, _, preference = state.partition("\0")
        super().write(target, governor)
        # Under "performance" the drivers fix the preference and refuse to have it written.
        if preference and governor.strip() != "performance" and read_text(policy / _PREFERENCE) != preference:
            write_text(policy / _PREFERENCE, preference)
