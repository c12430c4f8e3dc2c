# SPDX-License-Identifier: BSD-3-Clause
"""Check the ratio of two levels measured block by block, on planted hosts that change their speed between blocks."""

import math

import numpy as np
import numpy.typing as npt
import pytest

from pollscope.stats.estimates import block_ratio_estimate, ratio_estimate

_RUNS = 400


def _blocks(chance: np.random.Generator, kind: str, blocks: int, ratio: float) -> npt.NDArray[np.float64]:
    """Return two sides by block: noise of 1 % on a host that is quiet, has two levels, drifts, or dips."""
    sides = np.array([[ratio], [1.0]]) * (1 + 0.01 * chance.standard_normal((2, blocks)))
    if kind == "levels":
        return sides * np.where(chance.random(blocks) < 0.5, 1.0, 1.5)
    if kind == "drift":
        return sides * np.linspace(1.0, 1.4, blocks)
    if kind == "dips":
        return sides * (1 - 0.3 * (chance.random((2, blocks)) < 0.1))
    return sides


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["quiet", "levels", "drift", "dips"])
@pytest.mark.parametrize("blocks", [4, 25])
def test_the_interval_holds_the_planted_ratio(kind: str, blocks: int) -> None:
    chance = np.random.default_rng(3)
    found = [block_ratio_estimate(*_blocks(chance, kind, blocks, 0.9)) for _ in range(_RUNS)]
    missed = sum(not each.low <= 0.9 <= each.high for each in found) / _RUNS
    assert missed <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / _RUNS)


def test_levels_between_blocks_cancel() -> None:
    """The ratio of two independent means pays for the host's levels, the ratio by block does not."""
    sides = _blocks(np.random.default_rng(4), "levels", 25, 0.9)
    by_block, independent = block_ratio_estimate(*sides), ratio_estimate(*sides)
    assert by_block.relative_half_width < 0.01 < 0.1 < independent.relative_half_width


def test_one_block_has_no_interval() -> None:
    assert not block_ratio_estimate([2.0], [1.0]).has_interval


def test_zeros_have_no_ratio() -> None:
    assert math.isnan(block_ratio_estimate([0.0, 1.0], [1.0, 1.0]).value)


def test_blocks_have_both_sides() -> None:
    with pytest.raises(ValueError, match="2 blocks over 1"):
        block_ratio_estimate([1.0, 2.0], [1.0])
