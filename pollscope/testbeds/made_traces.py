# SPDX-License-Identifier: BSD-3-Clause
"""Make the packet traces that a spec names by seed, when a run needs them: `traces/made-1.pcap` has seed 1."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pollscope.base.errors import HostError
from pollscope.base.replacing import written

# Defaults of `pollscope trace`.
PACKETS, FLOWS, MEAN_PPS = 1_000_000, 10_000, 500_000.0
_BY_SEED = re.compile(r"made-(\d{1,9})\.pcap")


def is_made_when_needed(path: str) -> bool:
    """Return whether a trace of this name is made if it is missing."""
    return _BY_SEED.fullmatch(Path(path).name) is not None


def make_missing(paths: Iterable[str]) -> Iterator[str]:
    """Make the missing traces that are named by their seed; yield a sentence about each.

    Raises:
        HostError: a file cannot be written.
    """
    for path in map(Path, paths):
        found = _BY_SEED.fullmatch(path.name)
        if found is None or path.is_file():
            continue
        make(path, PACKETS, FLOWS, MEAN_PPS, int(found[1]))
        yield f"trace {path} was missing and has been made: {PACKETS} packets of {FLOWS} flows, seed {int(found[1])}"


def make(path: Path, packets: int, flows: int, mean_pps: float, seed: int) -> None:
    """Write a trace, and make its folder.

    Raises:
        HostError: it cannot be written.
    """
    from pollscope.node.made_trace import write_trace  # imports numpy, which most commands do not need

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(f"cannot be made: {error.strerror}", str(path.parent), "name a trace elsewhere") from None
    with written(path, "name a trace elsewhere") as new:
        write_trace(new, packets, flows, mean_pps, seed)
