# SPDX-License-Identifier: BSD-3-Clause
"""Reserved huge pages, per NUMA node and page size."""

import re
from pathlib import Path

from pollscope.collectors.knobs.base import Availability, Knob, parse_whole
from pollscope.collectors.knobs.host import read_text, writable_reason, write_text

_MOST_PAGES = 1 << 24


class Hugepages(Knob):
    """nr_hugepages of a node (kernel documentation, admin-guide/mm/hugetlbpage); a target is "node0/2048kB".

    Always per node: the host-wide file spreads pages over the nodes anew, so writing an old total there would not
    give back what was there. Fewer pages than programs hold are not possible; the read-back then says so.
    """

    name = "hugepages"
    summary = "number of reserved huge pages of each NUMA node"
    values = "a number of pages; without a target: of 2048 kB, on every node"

    def available(self) -> Availability:
        targets = self.targets()
        if not targets:
            return Availability(f"{self._root()}/node*/hugepages is empty: the kernel has no hugetlbfs")
        return Availability(writable_reason(self._file(targets[0])))

    def targets(self) -> list[str]:
        files = self._root().glob("node[0-9]*/hugepages/hugepages-*kB/nr_hugepages")
        return sorted(f"{path.parents[2].name}/{path.parent.name.removeprefix('hugepages-')}" for path in files)

    def select(self, target: str | None, value: str | None = None) -> list[str]:
        chosen = super().select(target)
        if target is None and value is not None:
            return [name for name in chosen if name.endswith("/2048kB")]
        return chosen

    def parse(self, value: object) -> str:
        return str(parse_whole(self, value, 0, _MOST_PAGES))

    def read(self, target: str) -> str:
        return read_text(self._file(target))

    def show(self, state: str) -> str:
        return state.strip()

    def state_for(self, value: str, state: str, target: str) -> str:
        return value + "\n"

    def write(self, target: str, state: str) -> None:
        write_text(self._file(target), state)

    def _root(self) -> Path:
        return self.host.sysfs / "devices/system/node"

    def _file(self, target: str) -> Path:
        match = re.fullmatch(r"(node\d+)/(\d+kB)", target)
        assert match, f"BUG: {target!r} did not come from targets()"
        return self._root() / match[1] / f"hugepages/hugepages-{match[2]}/nr_hugepages"
