# SPDX-License-Identifier: BSD-3-Clause
"""Compilation of the loops that simulate: machine code that lets other threads run, kept for the next start."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Loop = TypeVar("Loop", bound=Callable[..., object])


def compiled(loop: Loop) -> Loop:
    """The function in machine code, compiled at its first call.

    The code is kept beside the source, or in the user's cache where that cannot be written; where neither can, each
    process compiles for itself.
    """
    try:
        return cast(Loop, numba.njit(loop, nogil=True, cache=True))
    except RuntimeError:  # numba found no folder to write to
        return cast(Loop, numba.njit(loop, nogil=True))
