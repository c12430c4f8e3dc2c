# SPDX-License-Identifier: BSD-3-Clause
"""Compile the simulation loops to machine code that releases the GIL, and cache it."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Loop = TypeVar("Loop", bound=Callable[..., object])

# Counting references to each array of a state at each access takes 15 times as long as the simulation itself. Arrays
# come from the caller and outlive the loop; a loop that allocates one does not compile (numba, NRT_incref without NRT).
OPTIONS: Any = {"nogil": True, "forceinline": True, "_nrt": False, "error_model": "numpy"}


def compiled(loop: Loop) -> Loop:
    """Return the function as machine code, compiled at its first call; the function must not allocate arrays.

    The code is kept beside the source, or in the user's cache where that cannot be written; if neither is possible,
    each process compiles for itself.
    """
    try:
        return cast(Loop, numba.njit(loop, cache=True, **OPTIONS))
    except RuntimeError:  # numba found no writable folder
        return cast(Loop, numba.njit(loop, **OPTIONS))


def _forget_what_is_older_than_the_sources() -> None:
    """Delete outdated machine code: Numba compares a function's file only, not those of inlined functions."""
    folder = Path(__file__).parent
    changed = max(path.stat().st_mtime for path in folder.glob("*.py"))
    for index in (folder / "__pycache__").glob("*.nbi"):
        with suppress(OSError):
            if index.stat().st_mtime < changed:
                index.unlink()


_forget_what_is_older_than_the_sources()
