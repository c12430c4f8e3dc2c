# SPDX-License-Identifier: BSD-3-Clause
"""The frequency governor of each cpufreq policy."""

from pathlib import Path

from pollscope.knobs.base import Availability, Knob, Refused
from pollscope.knobs.host import read_text, writable_reason, write_text

_GOVERNOR = "scaling_governor"
_PREFERENCE = "energy_performance_preference"


class Governor(Knob):
    """scaling_governor; a target is a policy ("policy0").

    The state holds the energy preference as well, after a NUL: some drivers move it together with the governor, and
    restoring the governor alone would leave it changed.
    """

    name = "governor"
    summary = "frequency governor of each cpufreq policy"
    values = "a governor that the driver offers, for instance performance, powersave, schedutil"
    aims = "`policyN` (all)"
    where = "cpufreq; the energy preference is restored with it"

    def available(self) -> Availability:
        policies = self.targets()
        if not policies:
            return Availability(f"{self._root()} holds no policy: the kernel has no frequency driver on this machine")
        return Availability(writable_reason(self._root() / policies[0] / _GOVERNOR))

    def targets(self) -> list[str]:
        found = (path.parent.name for path in self._root().glob(f"policy*/{_GOVERNOR}"))
        return sorted(found, key=lambda name: int(name.removeprefix("policy")))

    @classmethod
    def parse(cls, value: object) -> str:
        word = str(value).strip()
        if isinstance(value, bool) or not word.isidentifier():
            raise cls.bad_value(value)
        return word

    def read(self, target: str) -> str:
        policy = self._root() / target
        preference = policy / _PREFERENCE
        return read_text(policy / _GOVERNOR) + ("\0" + read_text(preference) if preference.exists() else "")

    def show(self, state: str) -> str:
        return state.partition("\0")[0].strip()

    def state_for(self, value: str, state: str, target: str) -> str:
        offered = read_text(self._root() / target / "scaling_available_governors").split()
        if value not in offered:
            raise Refused(f"the driver offers {', '.join(offered)}, not {value}", f"{self.name} {target}")
        _, separator, preference = state.partition("\0")
        return f"{value}\n{separator}{preference}"

    def write(self, target: str, state: str) -> None:
        policy = self._root() / target
        governor, _, preference = state.partition("\0")
        write_text(policy / _GOVERNOR, governor)
        # Under "performance" the drivers fix the preference and refuse to have it written.
        if preference and governor.strip() != "performance" and read_text(policy / _PREFERENCE) != preference:
            write_text(policy / _PREFERENCE, preference)

    def _root(self) -> Path:
        return self.host.cpu_dir / "cpufreq"
