# SPDX-License-Identifier: BSD-3-Clause
"""The most work requests that an NVIDIA NIC has under way, which its firmware fixes."""

import re
import shutil

from pollscope.base.errors import HostError
from pollscope.knobs.base import HOST_TARGET, Availability, Knob, Refused
from pollscope.knobs.pci import network_devices

_SETTING = "LOG_MAX_OUTSTANDING_WQE"
# The row of `mlxconfig -e query NAME`: default, current and next boot's value; * where the last two differ.
_ROW = re.compile(rf"^(?:RO)?[ *]+{_SETTING}\s+\d+\s+(\d+)\s+\d+\s*$", re.MULTILINE)
_VENDOR = "15b3:"
_NO_NIC = "none"


class OutstandingWqes(Knob):
    """2 to the power of LOG_MAX_OUTSTANDING_WQE, of all NVIDIA NICs of the host (joined by "+" where they differ)."""

    name = "outstanding_wqes"
    summary = "limit of outstanding work requests of NVIDIA NICs (firmware setting)"
    values = "a power of two, or none (a host without such a NIC)"
    where = f"read only: `mlxconfig`, {_SETTING}; `set` names the command"

    def available(self) -> Availability:
        return Availability("it can be read, but not set while the NIC runs: it needs a firmware setting and a reset")

    def targets(self) -> list[str]:
        return [HOST_TARGET]

    @classmethod
    def parse(cls, value: object) -> str:
        word = str(value).strip().lower()
        if word != _NO_NIC and not (word.isdecimal() and int(word).bit_count() == 1):
            raise cls.bad_value(value)
        return word

    def read(self, target: str) -> str:
        limits = {self._limit(address) for address in self._nics()}
        return "+".join(map(str, sorted(limits))) or _NO_NIC

    def state_for(self, value: str, state: str, target: str) -> str:
        if value == state:
            return state
        if _NO_NIC in (value, state):
            has = "no NVIDIA NIC" if state == _NO_NIC else "an NVIDIA NIC"
            raise Refused(f"the host has {has}", self.name)
        command = f"mlxconfig -d {self._nics()[0]} set {_SETTING}={int(value).bit_length() - 1}"
        raise Refused(f"the firmware has {state}; {value} needs '{command}' and a reset of the NIC", self.name)

    def write(self, target: str, state: str) -> None:
        raise AssertionError("BUG: state_for() refuses every change of the firmware's settings")

    def _nics(self) -> list[str]:
        return [each.address for each in network_devices(self.host) if each.identity.startswith(_VENDOR)]

    def _limit(self, address: str) -> int:
        tool = "mlxconfig" if shutil.which("mlxconfig") else "mstconfig"
        found = _ROW.search(self.host.run_tool([tool, "-d", address, "-e", "query", _SETTING]))
        if found is None:
            raise HostError(f"{tool} does not print its {_SETTING}", address)
        return 1 << int(found[1])
