# SPDX-License-Identifier: BSD-3-Clause
"""Group the points that are compared into blocks, which are measured within a second or some seconds.

A host that moves holds a level for a tenth of a second to some seconds. Points that lie further apart are measured on
different levels. A block holds all points of a spec if they fit into BLOCK_S, otherwise the levels of the factors that
are compared. With enough repeats it holds each point twice, the second time in reversed order (ABBA), so that a steady
drift cancels. Ratios are estimated block by block (docs/validity.md). Blocks depend on the spec alone, never on what is
measured.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from pollscope.base.fields import StrictModel
from pollscope.base.knob_values import KNOB_PREFIX
from pollscope.spec.model import LOADS, Spec
from pollscope.spec.points import Point
from pollscope.spec.predicates import LOAD

BLOCK_S = 1.0
# Student's factor is 2.6 at six blocks. With fewer, an interval over blocks is wider than the noise that it cancels.
FEWEST_BLOCKS = 6


def rounds(spec: Spec, repeats: Sequence[int]) -> list[Sequence[int]]:
    """Return the repeats that are made together, block by block: two where blocks suffice, otherwise one."""
    has_knobs = any(name.startswith(KNOB_PREFIX) for name in spec.levels)
    together = 2 if has_blocks(spec, len(repeats)) and spec.order.randomise and not has_knobs else 1
    return [repeats[first : first + together] for first in range(0, len(repeats), together)]


def has_blocks(spec: Spec, repeats: int | None = None) -> bool:
    """Return whether there are enough repeats (default: the spec's) to estimate ratios block by block."""
    return spec.repeats.decided or (repeats or spec.repeats.at_least) >= 2 * FEWEST_BLOCKS


def in_blocks(spec: Spec, points: Sequence[Point], seconds: Callable[[Point], float]) -> list[list[Point]]:
    """Return the points of one round by block, in the order of measurement.

    The levels of the first compared factor lie next to each other, then those of the second, and so on.

    Args:
        spec: the checked spec.
        points: one round, in order.
        seconds: the expected time of a point's trial.
    """
    factors = compared(spec)
    if not factors or not spec.order.randomise or sum(map(seconds, points)) <= BLOCK_S:
        factors = [{name for name in spec.levels if not name.startswith(KNOB_PREFIX)}]
    groups, together = [list(points)], set[str]()
    for names in factors:
        together |= names
        groups = _alike([point for group in groups for point in group], together)
    return groups


def _alike(points: Iterable[Point], but: Collection[str]) -> list[list[Point]]:
    """Group the points that have the same levels of all factors but some; the order of the points remains."""
    groups: dict[tuple[object, ...], list[Point]] = {}
    for point in points:
        rest = tuple((name, level) for name, level in point.factors.items() if name not in but)
        groups.setdefault(rest, []).append(point)
    return list(groups.values())


def compared(spec: Spec) -> list[set[str]]:
    """Return each factor whose levels are compared, with the factors zipped with it; none without factors.

    The spec names them, or its own claims do. Otherwise it is the x axis of its first figure, or the factor with the
    most levels.
    """
    known = {name: len(levels) for name, levels in spec.levels.items() if not name.startswith(KNOB_PREFIX)}
    if not known:
        return []
    axis = spec.show[0].x if spec.show else None
    factors = spec.order.compared or compared_by([claim.predicate for claim in spec.claims], known)
    factors = factors or [axis if axis in known else max(known, key=known.__getitem__)]
    return [{factor, *(name for group in spec.zip if factor in group for name in group)} for factor in factors]


def compared_by(predicates: Iterable[StrictModel], swept: Collection[str]) -> list[str]:
    """Return those of the swept factors whose levels predicates compare, the most frequent one first."""
    named = (str(getattr(predicate, key, "")) for predicate in predicates for key in ("factor", "across"))
    loads = [name for name in LOADS if name in swept]
    counts = Counter(loads[0] if name == LOAD and loads else name for name in named)
    return [name for name, _ in counts.most_common() if name in swept]
