# SPDX-License-Identifier: BSD-3-Clause
"""Group the points that are compared into blocks, which are measured within about a second.

A host that moves holds a level for a tenth of a second to some seconds. Points that lie further apart are measured on
different levels. A block holds all points of a spec if they fit into BLOCK_S, otherwise the levels of one factor. With
enough repeats it holds each point twice, the second time in reversed order (ABBA), so that a steady drift cancels.
Ratios are estimated block by block (docs/validity.md). Blocks depend on the spec alone, never on what is measured.
"""

from collections.abc import Callable, Sequence

from pollscope.base.knob_values import KNOB_PREFIX
from pollscope.spec.model import Spec
from pollscope.spec.points import Point

BLOCK_S = 1.0
# Student's factor is 2.6 at six blocks. With fewer, an interval over blocks is wider than the noise that it cancels.
FEWEST_BLOCKS = 6


def rounds(spec: Spec, repeats: Sequence[int]) -> list[Sequence[int]]:
    """Return the repeats that are made together, block by block: two where blocks suffice, otherwise one."""
    together = 2 if has_blocks(spec, len(repeats)) and spec.order.randomise and not _has_knobs(spec) else 1
    return [repeats[first : first + together] for first in range(0, len(repeats), together)]


def has_blocks(spec: Spec, repeats: int | None = None) -> bool:
    """Return whether there are enough repeats (default: the spec's) to estimate ratios block by block."""
    return spec.repeats.decided or (repeats or spec.repeats.at_least) >= 2 * FEWEST_BLOCKS


def block_numbers(spec: Spec, points: Sequence[Point], seconds: Callable[[Point], float]) -> dict[str, int]:
    """Return the number of each point's block within one round, by the point's id; the first point is in block 0.

    Args:
        spec: the checked spec.
        points: one round, in order.
        seconds: the expected time of a point's trial.
    """
    together = _compared(spec)
    if not together or not spec.order.randomise or sum(map(seconds, points)) <= BLOCK_S:
        return dict.fromkeys((point.id for point in points), 0)
    numbers: dict[tuple[object, ...], int] = {}
    return {
        point.id: numbers.setdefault(
            tuple((name, level) for name, level in point.factors.items() if name not in together), len(numbers)
        )
        for point in points
    }


def _compared(spec: Spec) -> set[str]:
    """Return the factor whose levels are compared, and the factors zipped with it; none without factors.

    The spec names it, or else it is the x axis of its first figure, or else the factor with the most levels.
    """
    known = {name: len(levels) for name, levels in spec.levels.items() if not name.startswith(KNOB_PREFIX)}
    if not known:
        return set()
    axis = spec.show[0].x if spec.show else None
    factor = spec.order.compare or (axis if axis in known else max(known, key=known.__getitem__))
    return {factor, *(name for group in spec.zip if factor in group for name in group)}


def _has_knobs(spec: Spec) -> bool:
    return any(name.startswith(KNOB_PREFIX) for name in spec.levels)
