# SPDX-License-Identifier: BSD-3-Clause
"""Check properties of every text: no crash but ParseError, no value that is not printed, no memory that grows."""

import shlex
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from collector_samples import PARSERS, ROOT, read_text, values
from hypothesis import given
from hypothesis import strategies as st

from pollscope.collectors.parsers.pcm import iio
from pollscope.collectors.parsing import Origin, ParseError, parse_cell, slug
from pollscope.collectors.sample import tidy

COUNT = st.integers(0, 2**47 - 1)


@pytest.mark.parametrize("parser", sorted(PARSERS))
@given(text=st.text(max_size=300))
def test_any_text_parses_or_is_refused(parser: str, text: str) -> None:
    try:
        readings = read_text(parser, text)
    except ParseError:
        return
    for sample in tidy(parser, readings):
        assert (sample.value is None) == bool(sample.reason)


@given(
    rows=st.lists(st.tuples(COUNT, COUNT, COUNT, COUNT, COUNT, COUNT), min_size=1, max_size=20), torn=st.integers(0, 40)
)
def test_pcm_iio_restores_what_was_printed(rows: list[tuple[int, ...]], torn: int) -> None:
    header = "Socket,Name,Part,IB write,IB read,OB read,OB write,IOTLB Lookup,IOTLB Miss\n"
    text = "".join(f"{header}Socket0,IIO Stack 0 - PCIe0,Part0,{','.join(map(str, row))}\n" for row in rows)
    readings = read_text("pcm-iio", text)
    assert values(readings, "socket0/stack0:PCIe0/part0", "dma_read") == [row[1] for row in rows]
    assert values(readings, "socket0/stack0:PCIe0", "iotlb_misses") == [row[5] for row in rows]
    # a log cut anywhere gives a beginning of the same values
    cut = (
        values(read_text("pcm-iio", text[: len(text) - torn]), "socket0/stack0:PCIe0", "iotlb_misses")
        if len(rows) > 1
        else []
    )
    assert cut == [row[5] for row in rows][: len(cut)]


def test_make_fuzz_and_the_nightly_run_reach_every_parser(tmp_path: Path) -> None:
    lines = subprocess.run(
        ["make", "-n", "--no-print-directory", "fuzz", "FUZZ_SECONDS=0.01", "VENV=V"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    (line,) = (each for each in lines if "fuzz_parsers.py" in each)
    program, *arguments = shlex.split(line)
    assert program == "V/python"
    done = subprocess.run(
        [sys.executable, ROOT / arguments[0], *arguments[1:]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    fuzzed = {each.split(":")[0] for each in done.stdout.splitlines()[1:]}
    assert {PARSERS[name] for name in fuzzed} == set(PARSERS.values())
    assert " fuzz FUZZ_SECONDS=" in (ROOT / ".ci/run").read_text()


def test_two_rows_on_one_line_are_no_rows() -> None:
    header = "Date,Time,Socket,Name,Part,IB write,IB read,OB read,OB write\n"
    row = "2026-11-20,10:00:00.000,Socket0,IIO Stack 0 - PCIe0,Part1,2,20,3,4"
    with pytest.raises(ParseError, match="text:9: the row has 13 values, its header 4"):
        read_text("pcm-iio", f"{header}{row}\n{row}\n" * 2 + f"{header}{row}\n{row},{row}\n" + f"{header}{row}\n")


@given(delimiter=st.sampled_from(",;\t"), pad=st.integers(0, 5), numbers=st.lists(COUNT, min_size=4, max_size=4))
def test_delimiter_and_padding_change_nothing(delimiter: str, pad: str, numbers: list[int]) -> None:
    cells = ["Socket1", "IIO Stack 7  - PCIe3", "Part2 (2nd x8/3rd x4)", *(f"{number:{pad}d}" for number in numbers)]
    header = delimiter.join(["Socket", "Name", "Part", "IB write", "IB read", "OB read", "OB write"])
    readings = read_text("pcm-iio", f"{header}\n{delimiter.join(cells)}\n")
    assert list(readings[0].values) == numbers
    assert readings[0].unit_path == "socket1/stack7:PCIe3/part2"


@given(value=st.integers(0, 2**63 - 1), name=st.from_regex(r"[a-z][a-z_.]{0,20}", fullmatch=True))
def test_ethtool_restores_every_counter(value: int, name: str) -> None:
    readings = read_text("ethtool", f"NIC statistics:\n     {name}: {value}\n")
    found = [v for reading in readings for v in reading.values]
    assert set(found) == {value}


@given(st.text(alphabet="0123456789.+-eEKMGT%na/ ", max_size=24))
def test_a_cell_is_a_number_or_an_absence_with_a_reason(text: str) -> None:
    value, reason = parse_cell(text)
    assert (value is None) == bool(reason)
    if value is not None:
        assert 0 <= value < 2**47


@given(st.text(max_size=40))
def test_slug_is_a_name(text: str) -> None:
    assert slug(text)
    assert set(slug(text)) <= set("abcdefghijklmnopqrstuvwxyz0123456789_")


@pytest.mark.parametrize("text", ["1_000", "١٢٣", "0x10", "1e999", "--5", "1.2.3", "12 3", "9" * 5000])
def test_numbers_that_only_python_would_read_are_refused(text: str) -> None:
    header = "Socket,Name,Part,IB write,IB read,OB read,OB write\n"
    good = "Socket0,IIO Stack 0 - PCIe0,Part0,1,2,3,4\n"
    readings = read_text("pcm-iio", f"{header}{good}Socket0,IIO Stack 0 - PCIe0,Part0,{text},2,3,4\n")
    assert values(readings, "socket0/stack0:PCIe0/part0", "dma_write") == [1, None]


def test_a_long_log_needs_no_memory() -> None:
    header = "Socket,Name,Part,IB write,IB read,OB read,OB write\n"

    def lines(samples: int) -> Iterator[str]:
        for sample in range(samples):
            yield header
            for part in range(8):
                yield f"Socket0,IIO Stack 0 - PCIe0,Part{part},{sample},{part},3,4\n"

    def peak_bytes(samples: int) -> int:
        tracemalloc.start()
        count = sum(1 for _ in iio.parse(lines(samples), Origin("long")))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == 8 * samples
        return peak

    assert peak_bytes(1000) < peak_bytes(50) + 16384
