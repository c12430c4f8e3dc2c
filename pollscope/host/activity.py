# SPDX-License-Identifier: BSD-3-Clause
"""Count other activity on the measuring CPUs: steal time, context switches, interrupts and softirqs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pollscope.host.files import PROC, read_text
from pollscope.host.kernel_log_check import KernelLogCheck, read_kernel_log_check

# Field of a `cpuN` line of /proc/stat (proc(5)): user nice system idle iowait irq softirq steal ...
_STEAL_FIELD = 8


@dataclass(frozen=True)
class Activity:
    """Counters since boot of some CPUs; `context_switches` is of the whole host, as the kernel counts it."""

    steal_ticks: int
    context_switches: int
    interrupts: dict[int, int]
    softirqs: int
    kernel_log_check: KernelLogCheck = field(default_factory=KernelLogCheck)

    def since(self, before: "Activity") -> dict[str, Any]:
        """Return the differences in the form of a trial record."""
        interrupts = {str(cpu): count - before.interrupts[cpu] for cpu, count in self.interrupts.items()}
        return {
            "steal_ticks": self.steal_ticks - before.steal_ticks,
            "context_switches": self.context_switches - before.context_switches,
            "interrupts": interrupts,
            "softirqs": self.softirqs - before.softirqs,
            **self.kernel_log_check.since(before.kernel_log_check),
        }


def activity_of(fields: Mapping[str, Any]) -> Activity:
    """Restore an object from the result of `dataclasses.asdict`, also after JSON, whose keys are texts."""
    kernel_log_check = dict(fields.get("kernel_log_check", {}))
    errors = {int(number): text for number, text in kernel_log_check.pop("errors", {}).items()}
    interrupts = {int(cpu): count for cpu, count in fields["interrupts"].items()}
    return Activity(
        **{**fields, "interrupts": interrupts, "kernel_log_check": KernelLogCheck(**kernel_log_check, errors=errors)}
    )


def read_activity(cpus: Sequence[int], proc: Path = PROC) -> Activity:
    """Read the counters of these CPUs."""
    kernel_log_check = read_kernel_log_check(cpus, proc)
    lines = (read_text(proc / "stat") or "").splitlines()
    stat = {fields[0]: fields for fields in (line.split() for line in lines) if fields}
    interrupts = _per_cpu(proc / "interrupts")
    softirqs = _per_cpu(proc / "softirqs")
    return Activity(
        steal_ticks=sum(int(stat[f"cpu{cpu}"][_STEAL_FIELD]) for cpu in cpus),
        context_switches=int(stat["ctxt"][1]),
        interrupts={cpu: interrupts.get(cpu, 0) for cpu in cpus},
        softirqs=sum(softirqs.get(cpu, 0) for cpu in cpus),
        kernel_log_check=kernel_log_check,
    )


def _per_cpu(path: Path) -> dict[int, int]:
    """Return CPU number -> sum of its column in /proc/interrupts or /proc/softirqs."""
    head, *lines = (read_text(path) or "").splitlines()
    cpus = [int(word.removeprefix("CPU")) for word in head.split()]
    totals = dict.fromkeys(cpus, 0)
    for line in lines:
        counts = line.split()[1 : len(cpus) + 1]
        if len(counts) == len(cpus) and all(count.isdigit() for count in counts):  # ERR: and MIS: have one column
            for cpu, count in zip(cpus, counts, strict=True):
                totals[cpu] += int(count)
    return totals
