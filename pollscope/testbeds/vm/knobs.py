# SPDX-License-Identifier: BSD-3-Clause
"""The knobs of the DUT of a vm-pair: the mode of its IOMMU, by boot parameter and reboot, and DDIO's bit.

Each change is preceded by a journal on the machine that says how to undo it (for the IOMMU, that of the role), so that
what a lost connection or a killed run left is restored by the next run or `testbed up`.
"""

import re
from collections.abc import Callable, Collection, Mapping

from pollscope.base.errors import HostError, UsageError
from pollscope.host.lock import HostLock
from pollscope.knobs import Holding, RestoreResult
from pollscope.knobs.platforms import DdioBit, of_root_port
from pollscope.testbeds.pair import boot_mode
from pollscope.testbeds.pair.boot_mode import BootMode
from pollscope.testbeds.pair.ssh import Remote
from pollscope.testbeds.vm.machine import NIC, run_there

SCRIPT_LIMIT_S = 240.0
# There is no `lazy`: under a virtual IOMMU the kernel is always strict.
VALUES: Mapping[str, Collection[str]] = {boot_mode.KNOB: ("off", "passthrough", "strict"), "ddio": ("on", "off")}

# Of the role `iommu`: it is there while a mode is set.
_HAS_BOOT = "[ ! -e /etc/default/grub.d/zz-pollscope-iommu.cfg ] || echo there\n"
_JOURNAL = "/var/lib/pollscope/testbed-ddio"
# QEMU's port; which bit of it is DDIO's, and that nothing follows from it, stands in the platform table. Another port
# is refused here. `BYTE` is the offset as setpci wants it, `MASK` the bit in it, `BITS` its value.
_PORT_ID = "1b36:000c"
_PORT = f"""\
set -eu
port=$(basename "$(dirname "$(readlink -f /sys/bus/pci/devices/{NIC})")")
ids=$(cat /sys/bus/pci/devices/$port/vendor /sys/bus/pci/devices/$port/device | paste -s -d ' ')
[ "$ids" = "0x{_PORT_ID.replace(":", " 0x")}" ] || {{ echo "$port is no emulated root port" >&2; exit 1; }}
"""
SET_DDIO = f"""\
{_PORT}
mkdir -p {_JOURNAL.rpartition("/")[0]}
[ -e {_JOURNAL} ] || {{ setpci -s $port BYTE >{_JOURNAL}.new; sync; mv {_JOURNAL}.new {_JOURNAL}; sync; }}
setpci -s $port BYTE=BITS:MASK
[ $((0x$(setpci -s $port BYTE) & 0xMASK)) = $((0xBITS)) ] || {{ echo "the bit did not stay" >&2; exit 1; }}
"""
RESTORE_DDIO = f"""\
[ -e {_JOURNAL} ] || exit 0
{_PORT}
setpci -s $port BYTE=$(cat {_JOURNAL})
[ "$(setpci -s $port BYTE)" = "$(cat {_JOURNAL})" ] || {{ echo "the old value did not stay" >&2; exit 1; }}
cat {_JOURNAL}
rm {_JOURNAL}
"""
SHOW_DDIO = _PORT + "setpci -s $port BYTE\n"


def emulated_bit() -> DdioBit:
    """DDIO's bit of the emulated root port, as the platform table has it."""
    platform = of_root_port(_PORT_ID)
    assert platform is not None
    assert isinstance(platform.ddio, DdioBit)
    return platform.ddio


def script_for(script: str, value: str = "off") -> str:
    """A script with the register of the platform table and the bits of a value."""
    bit = emulated_bit()
    bits = bit.mask if value == "on" else 0
    return script.replace("BYTE", f"{bit.byte:x}.b").replace("MASK", f"{bit.mask:02x}").replace("BITS", f"{bits:02x}")


def knob_refusal(settings: Mapping[str, object]) -> str | None:
    """Why the DUT cannot give a point the values of its knobs; None when it can."""
    for name, value in settings.items():
        if name not in VALUES:
            return f"the machines have no knob {name}; they have {', '.join(VALUES)}"
        if value not in VALUES[name]:
            return f"knob {name} has no value {value}; it has {', '.join(VALUES[name])}"
    return None


class VmKnobs(Holding):
    """Turns the DUT's knobs and restores them at the end; has the lock of the testbed meanwhile.

    Args:
        what: who is at work, for the message that another one gets.
        lock: of the testbed.
        dut: how the DUT is reached.
        set_mode: runs the play `iommu` on the DUT, which sets boot parameters, reboots, reads the mode back and makes
            the machine ready again.
    """

    remedy = "the next run or `testbed up` restores it"

    def __init__(self, what: str, lock: HostLock, dut: Remote, set_mode: Callable[[str], None]) -> None:
        self._what, self.lock, self._dut, self._mode = what, lock, dut, BootMode(set_mode)
        self.place = str(dut)
        self.restored_first: list[RestoreResult] = []

    def begin(self) -> None:
        """Restores what an earlier run left."""
        self.restored_first = self.restore()

    def end(self, error: BaseException | None) -> list[RestoreResult]:
        """Restores, after an error too."""
        return self.restore()

    def apply(self, settings: Mapping[str, object]) -> list[object]:
        """Sets knobs, the IOMMU first, because its reboot resets the other.

        Raises:
            UsageError: no such knob or value. HostError: it did not take it.
        """
        if reason := knob_refusal(settings):
            raise UsageError(reason)
        if boot_mode.KNOB in settings and self._mode.needs_play(wanted := str(settings[boot_mode.KNOB])):
            self._mode.set(wanted)
        if "ddio" in settings:  # each time: a machine that went down in between has lost it
            self._ask(script_for(SET_DDIO, str(settings["ddio"])))
        return []

    def restore(self) -> list[RestoreResult]:
        """Restores what this session, or one before it, set."""
        results = []
        for name, undo in (("ddio", self._restore_ddio), (boot_mode.KNOB, self._restore_mode)):
            try:
                text = undo()
            except HostError as error:
                results.append(RestoreResult(name, "dut", False, f"not restored: {error}"))
            else:
                results += [RestoreResult(name, "dut", True, text)] if text else []
        return results

    def _restore_ddio(self) -> str:
        old = self._ask(script_for(RESTORE_DDIO)).strip()
        return f"register {emulated_bit().byte:x}.b is {old} again" if old else ""

    def _restore_mode(self) -> str:
        if not self._ask(_HAS_BOOT).strip():
            return ""
        self._mode.restore()
        return "rebooted with its own boot parameters"

    def snapshot(self) -> dict[str, dict[str, str]]:
        """Knob -> target -> value as the machine shows it now."""
        register = self._ask(script_for(SHOW_DDIO)).strip()
        bit = "on" if re.fullmatch(r"[0-9a-f]{2}", register) and int(register, 16) & emulated_bit().mask else "off"
        words = [word for word in self._ask("cat /proc/cmdline\n").split() if "iommu" in word]
        return {boot_mode.KNOB: {"boot parameters": " ".join(words) or "none"}, "ddio": {"root port (emulated)": bit}}

    def _ask(self, script: str) -> str:
        said, reason = run_there(self._dut, ["sh", "-s"], SCRIPT_LIMIT_S, script)
        if reason:
            raise HostError(reason, str(self._dut))
        return said
