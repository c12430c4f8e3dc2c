# SPDX-License-Identifier: BSD-3-Clause
"""Check that a parser counts lines that it does not understand, and leaves out nothing of genuine outputs."""

from pathlib import Path

import pytest
from collector_samples import FIXTURES, LABELS, OWN_SAMPLES, PARSERS, needs_fixtures

from pollscope.collectors.parsing import Origin, ParseError
from pollscope.collectors.sample import Reading

STRANGE = "zzz unexpected words 42 17\n"
OF_FOLDER = {"pcm-core": "pcm", "perf-stat": "perf"}
OUTPUTS = [
    (path, parser)
    for path in sorted(FIXTURES.rglob("*"))
    if path.is_file()
    and not path.name.endswith((".source.txt", "SOURCE.txt"))
    and (parser := OF_FOLDER.get(folder := path.relative_to(FIXTURES).parts[0], folder)) in PARSERS
    and not path.name.startswith(("ethtool_c", "ethtool_g", "ethtool_i"))  # of ethtool-settings
]


def read(parser: str, lines: list[str], label: str) -> tuple[list[Reading], int]:
    """Return readings, and how many lines were left out."""
    origin = Origin("text", label=label)
    return list(PARSERS[parser](iter(lines), origin)), origin.problems.count


def is_said(parser: str, lines: list[str], label: str, line: int) -> bool:
    """Return whether a strange line before line `line` is refused, counted, or kept as text (the kernel's log)."""
    try:
        readings, left_out = read(parser, [*lines[:line], STRANGE, *lines[line:]], label)
    except ParseError:
        return True
    return left_out > 0 or "unexpected" in str(readings)


def test_every_parser_has_a_sample() -> None:
    """Fuzzing starts from accepted texts, because mutations of a refused text reach nothing."""
    by_first_name = {parse: name for name, parse in reversed(PARSERS.items())}
    assert set(by_first_name.values()) <= {path.name.split(".")[0] for path in OWN_SAMPLES}


@pytest.mark.parametrize("path", OWN_SAMPLES, ids=lambda path: path.name)
def test_a_strange_line_after_the_first_reading_is_counted(path: Path) -> None:
    parser, *label_of, _ = path.name.split(".")
    label = label_of[0] if parser in LABELS and label_of else next(iter(LABELS.get(parser, ("",))))
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    assert read(parser, lines, label)[1] == 0

    def has_readings(line: int) -> bool:
        try:
            return bool(read(parser, lines[:line], label)[0])
        except ParseError:
            return False

    first = next(line for line in range(1, len(lines) + 1) if has_readings(line))
    assert [line for line in range(first, len(lines) + 1) if not is_said(parser, lines, label, line)] == []


@needs_fixtures
@pytest.mark.parametrize(("path", "parser"), OUTPUTS, ids=[path.name for path, _ in OUTPUTS])
def test_of_a_tools_own_output_nothing_is_left_out(path: Path, parser: str) -> None:
    """Check the end of the text: parsers do not read the description of the host before the first header."""
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        lines = list(file)
    label = next(iter(LABELS.get(parser, ("",))))
    try:
        readings, left_out = read(parser, lines, label)
    except ParseError:
        pytest.skip("an error message, a help text, or made broken: refused whole")
    assert (bool(readings), left_out) == (True, 0)
    assert is_said(parser, lines, label, len(lines) - 1)
