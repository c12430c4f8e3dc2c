# SPDX-License-Identifier: BSD-3-Clause
"""The mode of the IOMMU, which the kernel fixes at boot."""

from pollscope.host.files import cpuinfo
from pollscope.knobs.base import HOST_TARGET, Availability, Knob, Refused, parse_choice
from pollscope.knobs.host import read_text

# Type of the default domains of the groups (kernel documentation, ABI/testing/sysfs-kernel-iommu_groups) -> mode.
_MODES = {"identity": "passthrough", "DMA-FQ": "lazy", "DMA": "strict"}
_PARAMETERS = {
    "off": {"intel": "intel_iommu=off", "amd": "amd_iommu=off"},
    "passthrough": {"intel": "intel_iommu=on iommu=pt", "amd": "iommu=pt"},
    "lazy": {"intel": "intel_iommu=on iommu.passthrough=0 iommu.strict=0", "amd": "iommu.passthrough=0 iommu.strict=0"},
    "strict": {
        "intel": "intel_iommu=on iommu.passthrough=0 iommu.strict=1",
        "amd": "iommu.passthrough=0 iommu.strict=1",
    },
}


class Iommu(Knob):
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

    def available(self) -> Availability:
        return Availability("it can be read, but not set while the system runs: it needs a boot parameter and a reboot")

    def targets(self) -> list[str]:
        return [HOST_TARGET]

    @classmethod
    def parse(cls, value: object) -> str:
        return parse_choice(cls, value, list(_PARAMETERS))

    def read(self, target: str) -> str:
        if not any((self.host.sysfs / "class/iommu").glob("*")):
            return "off"
        types = {read_text(path).strip() for path in (self.host.sysfs / "kernel/iommu_groups").glob("*/type")}
        return "+".join(sorted({_MODES[kind] for kind in types if kind in _MODES})) or "unknown"

    def state_for(self, value: str, state: str, target: str) -> str:
        if value == state:
            return state
        raise Refused(
            f"the IOMMU is {state}; {value} needs the boot parameter '{self.boot_parameters(value)}' and a reboot",
            self.name,
        )

    def write(self, target: str, state: str) -> None:
        raise AssertionError("BUG: state_for() refuses every change of the IOMMU mode")

    def boot_parameters(self, value: str) -> str:
        """Return what the kernel command line needs for a mode on this host's make of processor."""
        make = "amd" if cpuinfo(self.host.proc).get("vendor_id") == "AuthenticAMD" else "intel"
        return _PARAMETERS[value][make]
