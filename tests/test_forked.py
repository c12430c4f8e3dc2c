# SPDX-License-Identifier: BSD-3-Clause
"""Work in forked processes: the same results in their order, errors as they are, nobody left behind."""

import os
import time
from pathlib import Path

import pytest

from pollscope.base.errors import UsageError
from pollscope.base.forked import beside, in_pieces


@pytest.fixture(autouse=True)
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("threading.active_count", lambda: 1)  # those of pytest's workers hold nothing


def squares(first: int, end: int) -> list[tuple[int, int]]:
    return [(number**2, os.getpid()) for number in range(first, end)]


@pytest.mark.parametrize("count", [0, 1, 3, 16, 37])
def test_pieces_come_back_in_their_order(count: int) -> None:
    found = in_pieces(squares, count, enough=3)
    assert [square for square, _ in found] == [number**2 for number in range(count)]
    assert all((made == os.getpid()) == (count < 3) for _, made in found)


def refused() -> int:
    raise UsageError("is wrong", "there", "do better")


def test_an_error_comes_as_it_is() -> None:
    with beside(refused, worth=True) as told, pytest.raises(UsageError) as error:
        told()
    assert str(error.value) == "there: is wrong (do better)"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_who_is_interrupted_does_not_wait_for_the_other_process(error: type[BaseException], tmp_path: Path) -> None:
    def slow() -> None:
        (tmp_path / "begun").touch()
        time.sleep(20)
        (tmp_path / "ended").touch()

    def interrupted() -> None:
        with beside(slow, worth=True):
            while not (tmp_path / "begun").exists():
                time.sleep(0.01)
            raise error

    with pytest.raises(error):
        interrupted()
    assert not (tmp_path / "ended").exists()
