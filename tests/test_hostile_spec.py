# SPDX-License-Identifier: BSD-3-Clause
"""Attack with a stranger's spec: it must not exhaust memory, and is refused in one line."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from pollscope.base.document import parse, with_setting
from pollscope.base.errors import UsageError
from pollscope.spec import expressions, known_specs, load_file
from pollscope.testbeds import make_testbed

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    """Let an attack fail with MemoryError instead of taking the machine down."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_aliases_of_aliases_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^laughs\.yaml: holds more than 100000 values"):
        parse(LAUGHS, "laughs.yaml")
    with pytest.raises(UsageError, match="more than 100000 values"):
        with_setting(parse("name: a\n", "a.yaml"), f"x={{{', '.join(LAUGHS.splitlines())}}}")


def test_a_file_with_holes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holes.yaml").touch()
    os.truncate(tmp_path / "holes.yaml", 1 << 43)
    with pytest.raises(UsageError, match=r"holes\.yaml: is larger than 16 MiB"):
        load_file(tmp_path / "holes.yaml")
    with pytest.raises(UsageError, match=r"holes\.yaml: is larger than 16 MiB"):
        make_testbed(str(tmp_path / "holes.yaml"))


@pytest.mark.thorough
def test_a_name_is_found_beside_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "experiments"
    folder.mkdir()
    os.mkfifo(folder / "fifo.yaml")
    (folder / "holes.yaml").touch()
    os.truncate(folder / "holes.yaml", 1 << 43)
    (folder / "deep.yaml").write_text("name: " + "[" * 5000, encoding="utf-8")
    (folder / "date.yaml").write_text("name: 2026-99-99\n", encoding="utf-8")
    (folder / "mine.yaml").write_text("name: mine\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert known_specs()["mine"] == folder / "mine.yaml"


def test_nesting_beyond_what_python_can_read_is_refused() -> None:
    with pytest.raises(UsageError, match=r"deep\.yaml"):
        parse("a: " + "[" * 600 + "]" * 600, "deep.yaml")
    with pytest.raises(UsageError, match="--set"):
        with_setting(parse("name: a\n", "a.yaml"), "x=" + "[" * 600 + "]" * 600)


@pytest.mark.parametrize(
    "text", ["'a' * 9000000000 == queues", "[0] * 9000000000 == queues", "'%9000000000d' % 1 == queues", "'a' + 'b'"]
)
def test_arithmetic_is_for_numbers_alone(text: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be computed: .* is not a number"):
        expressions.parse(text)({"queues": 1})
