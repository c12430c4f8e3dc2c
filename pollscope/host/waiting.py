# SPDX-License-Identifier: BSD-3-Clause
"""Read how long runnable threads waited for their CPU, and which threads ran there instead.

Source: /proc/PID/task/TID/schedstat, time on a CPU and time in wait (Documentation/scheduler/sched-stats.rst of the
kernel), and the CPU in /proc/PID/task/TID/stat (proc(5)).
"""

import re
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from pollscope.base.errors import one_line
from pollscope.host.files import PROC, read_text

# EAL names its threads `rte-worker-2` (from 23.03 on `dpdk-worker2`); the number is the lcore.
_WORKER = re.compile(r"(?:rte-worker-|lcore-worker-|dpdk-worker)(\d+)")
# Field 39 of `stat`, the CPU on which a thread last ran, counted from field 3, which follows the name.
_CPU_FIELD = 36
Thread = tuple[str, str]  # ids of process and thread


def lcore_waits_ns(pid: int, lcores: Collection[int], proc: Path = PROC) -> dict[int, int]:
    """Return the waiting time of each of these lcores' threads since its start; omit unknown ones."""
    waits = {}
    for task in (proc / str(pid) / "task").glob("*"):
        match = _WORKER.fullmatch(read_text(task / "comm") or "")
        fields = (read_text(task / "schedstat") or "").split()
        if match and int(match[1]) in lcores and len(fields) == 3:
            waits[int(match[1])] = int(fields[1])
    return waits


def run_times_ns(proc: Path = PROC) -> dict[Thread, int]:
    """Return how long each thread of the host has run. It takes about 20 us per thread."""
    times: dict[Thread, int] = {}
    for process in (each for each in proc.iterdir() if each.name.isdecimal()):
        with suppress(OSError, ValueError, IndexError):  # the process has ended
            for task in (process / "task").iterdir():
                times[process.name, task.name] = int((task / "schedstat").read_bytes().split()[0])
    return times


def ran_instead(
    before: Mapping[Thread, int], waits_ns: Mapping[int, int], pids: Collection[int], proc: Path = PROC
) -> dict[int, str]:
    """Return, by lcore, the thread that ran on its CPU for at least half of its wait: `python3 (pid 123)`.

    A thread counts for the CPU on which it last ran. Threads that ended since `before` are not seen. `pids` are the
    processes of the lcores.
    """
    lcore_on: dict[int, int] = {}
    passed = {str(threading.get_native_id())}  # the caller sleeps while lcores poll
    for task in (task for pid in pids for task in (proc / str(pid) / "task").glob("*")):
        cpu, name = _cpu_and_name(task)
        if (match := _WORKER.fullmatch(name)) and int(match[1]) in waits_ns:
            lcore_on[cpu] = int(match[1])
            passed.add(task.name)
    found: dict[int, str] = {}
    grown = ((ns - before.get(each, 0), each) for each, ns in run_times_ns(proc).items() if each[1] not in passed)
    for ns, (pid, tid) in sorted(grown, reverse=True):
        if 2 * ns < min(waits_ns.values()):
            break
        cpu, name = _cpu_and_name(proc / pid / "task" / tid)
        if (lcore := lcore_on.get(cpu)) is not None and 2 * ns >= waits_ns[lcore]:
            found.setdefault(lcore, f"{one_line(name)} (pid {pid})")
    return found


def _cpu_and_name(task: Path) -> tuple[int, str]:
    head, _, rest = (read_text(task / "stat") or "").rpartition(") ")
    fields = rest.split()
    return int(fields[_CPU_FIELD]) if len(fields) > _CPU_FIELD else -1, head.partition("(")[2]
