# SPDX-License-Identifier: BSD-3-Clause
"""Turbo: frequencies above the nominal one, which make cycles per second depend on load and temperature."""

from pathlib import Path
from types import MappingProxyType

from pollscope.knobs.base import HOST_TARGET, SwitchFile


class Turbo(SwitchFile):
    """intel_pstate/no_turbo (1 means off) or, with other drivers, cpufreq/boost (1 means on)."""

    name = "turbo"
    summary = "frequencies above the nominal one"
    where = "`intel_pstate/no_turbo`, else `cpufreq/boost`"
    words = MappingProxyType({"off": "0", "on": "1"})

    def file(self, target: str = HOST_TARGET) -> Path:
        inverted = self._no_turbo()
        return inverted if inverted.exists() else self.host.cpufreq_dir / "boost"

    def missing(self) -> str:
        return (
            f"neither {self._no_turbo()} nor {self.file()} exists: the kernel has no frequency driver on this machine"
        )

    def show(self, state: str) -> str:
        return self._turn(super().show(state))

    def state_for(self, value: str, state: str, target: str) -> str:
        return super().state_for(self._turn(value), state, target)

    def _no_turbo(self) -> Path:
        return self.host.cpu_dir / "intel_pstate/no_turbo"

    def _turn(self, value: str) -> str:
        if not self._no_turbo().exists():
            return value
        return {"off": "on", "on": "off"}.get(value, value)
