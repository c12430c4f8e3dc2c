# SPDX-License-Identifier: BSD-3-Clause
"""Try whether this host lets a thread of this user run before all ordinary ones (SCHED_FIFO, sched(7))."""

import os
from functools import cache
from threading import Thread


@cache
def real_time_refusal() -> str | None:
    """Return why the kernel refuses SCHED_FIFO; None if a thread got it. The thread ends at once."""
    reasons: list[str] = []

    def attempt() -> None:
        try:
            first = os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO))
            os.sched_setscheduler(0, os.SCHED_FIFO, first)  # 0: this thread alone
        except OSError as error:
            reasons.append(str(error.strerror))

    thread = Thread(target=attempt)
    thread.start()
    thread.join()
    return reasons[0] if reasons else None
