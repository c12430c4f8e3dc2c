# SPDX-License-Identifier: BSD-3-Clause
"""Check that each file of tool outputs gives the numbers of collectors/expected.tsv, or is refused clearly."""

import json
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

import pytest
from collector_samples import FIXTURES, needs_fixtures, read_file, values

from pollscope.collectors.parsing import ParseError
from pollscope.collectors.sample import Value

pytestmark = needs_fixtures

Wanted = float | str | None
Expected = tuple[str, str, Sequence[Wanted]]
Row = tuple[str, str, int | None, list[Expected]]
Refusal = tuple[str, str, str]


def _table() -> list[Row]:
    """Read tests/collectors/expected.tsv, whose head explains its form."""
    rows: list[Row] = []
    for line in (Path(__file__).parent / "collectors/expected.tsv").read_text().splitlines():
        first, *cells = line.split("\t")
        if first.startswith("#"):
            continue
        if first:
            rows.append((first, cells[0], json.loads(cells[1]), []))
        else:
            rows[-1][3].append((cells[0], cells[1], json.loads(cells[2])))
    return rows


TABLE = _table()
REFUSED: list[Refusal] = [
    ("pcm-iio/codegen/*BROKEN_icx.csv", "pcm-iio", "delimiter '||'"),
    ("pcm-iio/*help.txt", "pcm-iio", "no pcm-iio header"),
    ("pcm-iio/*stderr.txt", "pcm-iio", "no PMU in this virtual machine"),
    ("pcm-iio/*stdout.txt", "pcm-iio", "no pcm-iio header"),
    ("pcm-pcie/*help.txt", "pcm-pcie", "no pcm-pcie header"),
    ("pcm-pcie/*stderr.txt", "pcm-pcie", "no PMU in this virtual machine"),
    ("pcm-pcie/*stdout.txt", "pcm-pcie", "no pcm-pcie header"),
    ("pcm-memory/*help.txt", "pcm-memory", "no pair of pcm-memory header rows"),
    ("pcm-memory/*stderr.txt", "pcm-memory", "no PMU in this virtual machine"),
    ("pcm-memory/*stdout.txt", "pcm-memory", "no pair of pcm-memory header rows"),
    ("pcm-core/*stderr.txt", "pcm", "no PMU in this virtual machine"),
    ("pcm-core/*stdout.txt", "pcm", "no pair of pcm header rows"),
    ("pcm-power/*stderr.txt", "pcm-power", "no PMU in this virtual machine"),
    ("pcm-power/*stdout.txt", "pcm-power", "no line of a socket"),
    ("perf-stat/perf61_err_power_missing.txt", "perf", "perf does not know an event"),
    ("perf-stat/perf61_err_uncore_iio_missing.txt", "perf", "uncore_iio_0/event=0x83"),
    ("perf-stat/perf61_err_unknown_event.txt", "perf", "unc_cha_tor_inserts.io_pcirdcur"),
    ("perf-stat/perf61_text_default_vm.txt", "perf", "human-readable text"),
    ("perf-iostat/*.txt", "perf-iostat", "no uncore IIO PMU"),
    ("dpdk-telemetry/testpmd22.11_net_null_log.txt", "dpdk-telemetry", "no JSON"),
]


def files() -> list[str]:
    """Return every output (without the notes on its source), relative to the folder."""
    if not FIXTURES.is_dir():
        return []
    paths = (path for path in sorted(FIXTURES.rglob("*")) if path.is_file() and path.name != "README.md")
    names = (
        str(p.relative_to(FIXTURES)) for p in paths if not p.name.endswith(".source.txt") and p.name != "SOURCE.txt"
    )
    # The rest are published tables of results, which no collector reads.
    return [name for name in names if not name.startswith("ddio/")]


def entries(name: str) -> tuple[list[Row], list[Refusal]]:
    return [row for row in TABLE if fnmatch(name, row[0])], [row for row in REFUSED if fnmatch(name, row[0])]


@pytest.mark.parametrize("name", files())
def test_file_gives_its_numbers_or_is_refused(name: str) -> None:
    expected, refused = entries(name)
    assert expected or refused, f"no expected values for {name}"
    if refused:
        with pytest.raises(ParseError, match=refused[0][2].replace("|", r"\|")) as error:
            read_file(refused[0][1], FIXTURES / name)
        assert name.rsplit("/", 1)[1] in error.value.where
        assert error.value.remedy
        return
    _, parser, count, numbers = expected[0]
    readings = read_file(parser, FIXTURES / name)
    assert count is None or len(readings) == count
    for unit_path, metric, wanted in numbers:
        found = values(readings, unit_path, metric)
        assert len(found) == len(wanted), f"{unit_path} {metric}: {found}"
        for one, other in zip(found, wanted, strict=True):
            assert _fits(one, other), f"{unit_path} {metric}: {found} instead of {wanted}"


def _fits(found: Value, wanted: Wanted) -> bool:
    if wanted is None:
        return True
    if wanted == "absent":
        return found is None
    return found == wanted if isinstance(wanted, str) else found == pytest.approx(wanted)


def test_every_row_of_the_tables_has_a_file() -> None:
    names = files()
    patterns = [row[0] for row in TABLE] + [row[0] for row in REFUSED]
    unused = [pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in names)]
    assert not unused
