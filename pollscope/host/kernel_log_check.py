# SPDX-License-Identifier: BSD-3-Clause
"""Read events that invalidate a trial: swapping, throttling, and errors in the kernel's log."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pollscope.host.files import PROC, SYS, read_int, read_text

# Priorities of syslog(3): 0 emergency ... 3 error; the upper bits are the facility.
_WORST, _PRIORITY_BITS = 3, 7
_KEPT_ERRORS = 20
_LONGEST_RECORD = 8192  # kernel documentation, dev-kmsg: a record fits into one read


@dataclass(frozen=True)
class KernelLogCheck:
    """Counters since boot; None where the host does not show one.

    Attributes:
        swapped_pages: in and out, of the whole host.
        throttle_events: of the cores of some CPUs, and of their packages.
        log_end: number of the last record of the kernel's log.
        errors: number and text of the last records of priority error or worse.
    """

    swapped_pages: int | None = None
    throttle_events: int | None = None
    log_end: int | None = None
    errors: dict[int, str] = field(default_factory=dict)

    def since(self, before: "KernelLogCheck") -> dict[str, Any]:
        """Return the differences in the form of a trial record; `kernel_errors` are texts."""
        found: dict[str, Any] = {}
        for name in ("swapped_pages", "throttle_events"):
            now, then = getattr(self, name), getattr(before, name)
            if now is not None and then is not None:
                found[name] = now - then
        if self.log_end is not None and before.log_end is not None:
            found["kernel_errors"] = [text for number, text in self.errors.items() if number > before.log_end]
        return found


def read_kernel_log_check(
    cpus: Sequence[int], proc: Path = PROC, sys: Path = SYS, log: "LogTail | None" = None
) -> KernelLogCheck:
    """Read the counters and the new records of the kernel's log."""
    log_end, errors = (log or _log_of(os.getpid())).read()
    return KernelLogCheck(_swapped(proc), _throttled(cpus, sys), log_end, errors)


def _swapped(proc: Path) -> int | None:
    lines = (read_text(proc / "vmstat") or "").splitlines()
    found = [int(line.split()[1]) for line in lines if line.startswith(("pswpin ", "pswpout "))]
    return sum(found) if found else None


def _throttled(cpus: Sequence[int], sys: Path) -> int | None:
    """Return the throttle events of the CPUs; each CPU shows its package's count, which is added once per package."""
    cores, packages = list[int](), dict[str, int]()
    for cpu in cpus:
        folder = sys / f"devices/system/cpu/cpu{cpu}"
        core, package = (read_int(folder / f"thermal_throttle/{each}_throttle_count") for each in ("core", "package"))
        if core is not None:
            cores.append(core)
        if package is not None:
            packages[read_text(folder / "topology/physical_package_id") or ""] = package
    return sum(cores) + sum(packages.values()) if cores or packages else None


class LogTail:
    """The kernel's log. Each reading continues where the last one ended, so that old records are read only once."""

    def __init__(self, kmsg: Path = Path("/dev/kmsg")) -> None:
        self._last, self._errors = 0, dict[int, str]()
        try:
            self._descriptor: int | None = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:  # not root, and dmesg_restrict
            self._descriptor = None

    def read(self) -> tuple[int | None, dict[int, str]]:
        """Return the last record's number and the last errors by number; None and {} where the log cannot be read."""
        if self._descriptor is None:
            return None, {}
        while True:
            try:
                record = os.read(self._descriptor, _LONGEST_RECORD).decode(errors="replace")
            except BlockingIOError:
                break
            except BrokenPipeError:  # overwritten meanwhile; the next read continues after the gap
                continue
            except OSError:
                return None, {}
            if not record:
                break
            self._keep(record)
        return self._last, dict(self._errors)

    def _keep(self, record: str) -> None:
        priority, number, *_ = [*record.split(",", 3), "", ""]
        if not (priority.isdigit() and number.isdigit()):
            return
        self._last = int(number)
        if int(priority) & _PRIORITY_BITS <= _WORST:
            self._errors[self._last] = record.partition(";")[2].partition("\n")[0][:200]
            self._errors = dict(list(self._errors.items())[-_KEPT_ERRORS:])


@cache
def _log_of(_process: int) -> LogTail:
    """Return the log of this process; a fork that kept its parent's descriptor would take records from the parent."""
    return LogTail()
