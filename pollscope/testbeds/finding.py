# SPDX-License-Identifier: BSD-3-Clause
"""What `pollscope testbed check` says of a host: one thing that it has or lacks, and what to run for it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class HostFinding:
    """One line of the table.

    Attributes:
        host: of the testbed.
        what: was looked at.
        state: `yes` it is there; `no` nothing can be measured without it; `note` it is missed, or is not known.
        text: what was found.
        remedy: what to run or to write; empty for `yes`.
    """

    host: str
    what: str
    state: Literal["yes", "no", "note"]
    text: str
    remedy: str = ""
