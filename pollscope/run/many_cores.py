# SPDX-License-Identifier: BSD-3-Clause
"""Say which shipped rows with more than one DUT core this host can run, and what it lacks for the rest of each."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pollscope.base.paths import data_folder
from pollscope.host import cpus as processors
from pollscope.plan.plan import impossible
from pollscope.spec import Overrides, Spec, lcores, load_file
from pollscope.spec.model import Parameters
from pollscope.spec.points import Point, all_points, dropped
from pollscope.testbeds import make_testbed

# A spec that names no more than one core anywhere need not be loaded.
_CORES = re.compile(r"cores: +(?:[\[{]|[2-9]|1\d)")


@dataclass(frozen=True)
class RowHere:
    """A row with several cores on this host.

    Attributes:
        row: its identifiers.
        state: `yes` all of its points can be measured here, `note` some, `no` none.
        text: how many points, and what is lacking for the others.
    """

    row: str
    state: str
    text: str


def rows_with_several_cores() -> Iterator[RowHere]:
    """Yield the rows of the testbed `loopback` that need three CPUs or more for at least one point."""
    for path in sorted(data_folder("experiments").glob("*/*.yaml")):
        if _CORES.search(path.read_text(encoding="utf-8")) is None:
            continue
        spec = load_file(path).spec
        points = _points(spec)
        if "loopback" in spec.testbeds and spec.all_rows and max(map(_needed, points), default=0) > 2:
            yield _row(path, ", ".join(spec.all_rows), points)


def _points(spec: Spec) -> list[Point]:
    return [point for point in all_points(spec) if not (dropped(spec, point) or impossible(point.params))]


def _needed(point: Point) -> int:
    """Return the number of CPUs of a point."""
    params: Parameters = point.params
    return lcores.dut_lcores(params) + lcores.generator_spins(params) + lcores.spinning_beside(params)


def _row(path: Path, row: str, points: list[Point]) -> RowHere:
    here, roomy = make_testbed("loopback"), make_testbed("loopback")
    roomy.plan_for(max(len(processors.allowed_cpus()), *map(_needed, points)))
    left_out = [point for point in points if here.refusal(point) is not None]
    if not left_out:
        return RowHere(row, "yes", f"all {len(points)} points")
    hosted = len(points) - len(left_out)
    texts = [f"{hosted} of {len(points)} points"]
    if not hosted:
        quick = _points(load_file(path, Overrides(quick=True)).spec)
        hosted = sum(here.refusal(point) is None for point in quick)
        texts[0] += f" ({hosted} of {len(quick)} with --quick)" if hosted else ""
    reasons = Counter(roomy.refusal(point) for point in left_out)
    if few := reasons.pop(None, 0):
        most = max(_needed(point) for point in left_out if roomy.refusal(point) is None)
        texts.append(f"{few} need up to {most} CPUs")
    texts += [f"{count}: {reason}" for reason, count in reasons.most_common(2)]
    return RowHere(row, "note" if hosted else "no", "; ".join(texts))
