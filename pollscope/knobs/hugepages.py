# SPDX-License-Identifier: BSD-3-Clause
"""Reserved huge pages, per NUMA node and page size."""

import re
from pathlib import Path

from pollscope.knobs.base import FileKnob, parse_whole

_MOST_PAGES = 1 << 24


class Hugepages(FileKnob):
    """nr_hugepages of a node (kernel documentation, admin-guide/mm/hugetlbpage); a target is "node0/2048kB".

    Always per node: the host-wide file spreads pages over the nodes again, so writing an old total there would not
    restore what was there. The kernel cannot free pages that programs use; the read-back then differs.
    """

    name = "hugepages"
    summary = "number of reserved huge pages of each NUMA node"
    values = "a number of pages; without a target: of 2048 kB, on every node"
    aims = "`nodeN/SIZEkB` (2048 kB on every node)"
    where = "per-node `nr_hugepages`"

    def missing(self) -> str:
        return f"{self._root()}/node*/hugepages is empty: the kernel has no hugetlbfs"

    def targets(self) -> list[str]:
        files = self._root().glob("node[0-9]*/hugepages/hugepages-*kB/nr_hugepages")
        return sorted(f"{path.parents[2].name}/{path.parent.name.removeprefix('hugepages-')}" for path in files)

    def select(self, target: str | None, value: str | None = None) -> list[str]:
        chosen = super().select(target)
        if target is None and value is not None:
            return [name for name in chosen if name.endswith("/2048kB")]
        return chosen

    @classmethod
    def parse(cls, value: object) -> str:
        return str(parse_whole(cls, value, 0, _MOST_PAGES))

    def _root(self) -> Path:
        return self.host.sysfs / "devices/system/node"

    def file(self, target: str) -> Path:
        match = re.fullmatch(r"(node\d+)/(\d+kB)", target)
        assert match, f"BUG: {target!r} did not come from targets()"
        return self._root() / match[1] / f"hugepages/hugepages-{match[2]}/nr_hugepages"
