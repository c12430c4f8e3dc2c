# SPDX-License-Identifier: BSD-3-Clause
"""Work on large runs for the other CPUs: forked processes have what their parent has read, and give back little."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any, TypeVar

Found = TypeVar("Found")
# How many pieces of work there are for each CPU, so that none waits long for another that got slower ones.
_PIECES_PER_CPU = 8


def in_pieces(compute: Callable[[int, int], Sequence[Found]], count: int, enough: int) -> list[Found]:
    """What `compute` says of the numbers from 0 to below `count`, in their order, many by all CPUs.

    Args:
        compute: takes the first number of a piece and the one behind its last.
        count: how many there are.
        enough: from so many on they are worth the processes.
    """
    cpus = _cpus()
    if count < enough or cpus == 1:
        return list(compute(0, count))
    pieces = _PIECES_PER_CPU * cpus
    ends = [count * piece // pieces for piece in range(pieces + 1)]
    with _processes(cpus, compute) as pool:
        return [each for piece in pool.map(_compute, ends, ends[1:]) for each in piece]


@contextmanager
def beside(compute: Callable[[], Found], worth: bool) -> Iterator[Callable[[], Found]]:
    """Gives what tells the result of `compute`; where it is worth a process, it is made while the caller goes on."""
    if not worth or _cpus() == 1:
        yield compute
        return
    with _processes(1, compute) as pool:
        yield pool.submit(_compute).result


def _cpus() -> int:
    """Beside other threads nothing is forked, for what one of them has locked stays locked in a child."""
    return len(os.sched_getaffinity(0)) if threading.active_count() == 1 else 1


@contextmanager
def _processes(count: int, compute: Callable[..., Any]) -> Iterator[ProcessPoolExecutor]:
    """Where the caller is interrupted, or fails, they end at once: to close a pool waits for what it has begun."""
    others = active_children()
    with ProcessPoolExecutor(count, get_context("fork"), _inherit, (compute,)) as pool:
        try:
            yield pool
        except BaseException:
            for child in active_children():
                if child not in others:
                    child.terminate()
            raise


_inherited: list[Callable[..., Any]] = []


def _inherit(compute: Callable[..., Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends them
    _inherited.append(compute)


def _compute(*given: Any) -> Any:
    [compute] = _inherited
    return compute(*given)
