# SPDX-License-Identifier: BSD-3-Clause
"""Settings that are read, but cannot be set while the system runs."""

import re
import shutil
from typing import ClassVar

from pollscope.base.errors import HostError
from pollscope.host.files import cpuinfo
from pollscope.host.iommu import WORDS, has_iommu, mode_of
from pollscope.knobs.base import HOST_TARGET, Availability, Knob, Refused, parse_choice
from pollscope.knobs.host import read_text
from pollscope.knobs.pci import network_devices


class _Fixed(Knob):
    """A setting of the whole host that `state_for` refuses to change.

    Attributes:
        needs: what a change takes.
    """

    needs: ClassVar[str]

    def available(self) -> Availability:
        return Availability(f"it can be read, but not set while {self.needs}")

    def targets(self) -> list[str]:
        return [HOST_TARGET]

    def write(self, target: str, state: str) -> None:
        raise AssertionError("BUG: state_for() refuses every change")


class Iommu(_Fixed):
    """Read from /sys/class/iommu and the types of the IOMMU groups; never from the kernel log, whose lines on the
    default domain also appear on machines without an IOMMU.

    Groups with different types read as their modes joined by "+"; the type of groups that a user-space driver holds
    does not show the default, so they are left out.
    """

    name = "iommu"
    summary = "mode of the IOMMU (needs a boot parameter)"
    values = "off, passthrough, lazy, strict"
    where = (
        "read only; `set` names the boot parameter. "
        "Runs on a pair with an inventory, or on a vm-pair, "
        "set it by a play with reboot ([two servers](two-servers.md))"
    )

    needs = "the system runs: it needs a boot parameter and a reboot"

    @classmethod
    def parse(cls, value: object) -> str:
        return parse_choice(cls, value, list(WORDS["intel"]))

    def read(self, target: str) -> str:
        types = (self.host.sysfs / "kernel/iommu_groups").glob("*/type")
        return mode_of(read_text(path).strip() for path in types) if has_iommu(self.host.sysfs) else "off"

    def state_for(self, value: str, state: str, target: str) -> str:
        if value == state:
            return state
        raise Refused(
            f"the IOMMU is {state}; {value} needs the boot parameter '{self.boot_parameters(value)}' and a reboot",
            self.name,
        )

    def boot_parameters(self, value: str) -> str:
        """Return what the kernel command line needs for a mode on this host's make of processor."""
        make = "amd" if cpuinfo(self.host.proc).get("vendor_id") == "AuthenticAMD" else "intel"
        return " ".join(WORDS[make][value])


_SETTING = "LOG_MAX_OUTSTANDING_WQE"
# The row of `mlxconfig -e query NAME`: default, current and next boot's value; * where the last two differ.
_ROW = re.compile(rf"^(?:RO)?[ *]+{_SETTING}\s+\d+\s+(\d+)\s+\d+\s*$", re.MULTILINE)
_VENDOR = "15b3:"
_NO_NIC = "none"


class OutstandingWqes(_Fixed):
    """2 to the power of LOG_MAX_OUTSTANDING_WQE, of all NVIDIA NICs of the host (joined by "+" where they differ)."""

    name = "outstanding_wqes"
    summary = "limit of outstanding work requests of NVIDIA NICs (firmware setting)"
    values = "a power of two, or none (a host without such a NIC)"
    where = f"read only: `mlxconfig`, {_SETTING}; `set` names the command"

    needs = "the NIC runs: it needs a firmware setting and a reset"

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

    def _nics(self) -> list[str]:
        return [each.address for each in network_devices(self.host) if each.identity.startswith(_VENDOR)]

    def _limit(self, address: str) -> int:
        tool = "mlxconfig" if shutil.which("mlxconfig") else "mstconfig"
        found = _ROW.search(self.host.run_tool([tool, "-d", address, "-e", "query", _SETTING]))
        if found is None:
            raise HostError(f"{tool} does not print its {_SETTING}", address)
        return 1 << int(found[1])
