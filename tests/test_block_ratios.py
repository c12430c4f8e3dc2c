# SPDX-License-Identifier: BSD-3-Clause
"""Check the ratio of two levels measured block by block, on planted hosts that change their speed between blocks."""

import math

import numpy as np
import numpy.typing as npt
import pytest

from pollscope.stats.estimates import RESOLUTION, block_ratio_estimate, ratio_estimate, rise_ratio_estimate

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


def test_what_slows_one_side_for_several_blocks_widens_the_interval() -> None:
    """A neighbour takes 10 % from one side for three blocks on average."""
    chance, missed = np.random.default_rng(6), 0
    for _ in range(_RUNS):
        sides = _blocks(chance, "quiet", 25, 0.9)
        level = (np.cumsum(chance.random(25) < 0.3) + chance.integers(2)) % 2
        found = block_ratio_estimate(sides[0] * np.exp(0.1 * (level - 0.5)), sides[1])
        missed += not found.low <= 0.9 <= found.high
    assert missed <= 0.14 * _RUNS


def test_equal_ratios_are_known_to_the_resolution() -> None:
    assert block_ratio_estimate([2.0, 4.0] * 3, [1.0, 2.0] * 3).relative_half_width == pytest.approx(RESOLUTION / 2)
    assert not block_ratio_estimate([2.0] * 5, [1.0] * 5).has_interval


def test_equal_rises_are_known_to_the_resolution() -> None:
    for trials, known in ((2, False), (6, True)):
        first, last = ([10.0] * trials, [5.0] * trials), ([20.0] * trials, [9.0] * trials)
        found = rise_ratio_estimate(first, last)
        assert found.value == 2.5
        assert found.has_interval is known
        assert found.low < found.high


def test_one_block_has_no_interval() -> None:
    assert not block_ratio_estimate([2.0], [1.0]).has_interval


def test_zeros_have_no_ratio() -> None:
    assert math.isnan(block_ratio_estimate([0.0, 1.0], [1.0, 1.0]).value)


def test_blocks_have_both_sides() -> None:
    with pytest.raises(ValueError, match="2 blocks over 1"):
        block_ratio_estimate([1.0, 2.0], [1.0])
