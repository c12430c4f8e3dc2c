# SPDX-License-Identifier: BSD-3-Clause
"""Record the description of the processor by lscpu."""

import shutil
from collections.abc import Iterable

from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import lscpu
from pollscope.collectors.polling import PollingCollector
from pollscope.collectors.tool import ask


class Lscpu(PollingCollector):
    """`lscpu -J`."""

    name, summary = "lscpu", "model, caches, topology and mitigations of the processor"
    notes = "state"
    parser = staticmethod(lscpu.parse)
    once = True

    def probe(self) -> ProbeResult:
        tool = shutil.which("lscpu")
        return ProbeResult(tool is not None, tool or "lscpu is not installed (apt-get install util-linux)")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", ask(["lscpu", "-J"])
