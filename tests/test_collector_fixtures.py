# SPDX-License-Identifier: BSD-3-Clause
"""Check that each text of a tool gives the numbers stated for it in collectors/, or is refused clearly."""

import io
import json
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from collector_samples import (
    FIXTURES,
    OWN,
    OWN_SAMPLES,
    PARSERS,
    Golden,
    load_golden,
    needs_fixtures,
    read_file,
    read_golden,
    reason,
    values,
)

from pollscope.collectors.parsing import Origin, ParseError
from pollscope.collectors.sample import Reading

Refusal = tuple[str, str, str]

GOLDEN = load_golden()
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


def check(golden: Golden, path: Path) -> None:
    readings = read_golden(golden, path)
    assert golden.readings in (None, len(readings))
    for unit_path, metrics in golden.units.items():
        for metric, wanted in metrics.items():
            found = values(readings, unit_path, metric)
            exact = [value if value is None or isinstance(value, str) else pytest.approx(value) for value in wanted]
            assert found == exact, f"{unit_path} {metric}"


@needs_fixtures
@pytest.mark.parametrize("name", files())
def test_file_gives_its_numbers_or_is_refused(name: str) -> None:
    golden = next((one for one in GOLDEN if fnmatch(name, one.pattern)), None)
    refused = next((row for row in REFUSED if fnmatch(name, row[0])), None)
    assert golden or refused, f"no golden values for {name}"
    if refused:
        with pytest.raises(ParseError, match=refused[2].replace("|", r"\|")) as error:
            read_file(refused[1], FIXTURES / name)
        assert name.rsplit("/", 1)[1] in error.value.where
        assert error.value.remedy
    elif golden:
        check(golden, FIXTURES / name)


@pytest.mark.parametrize("golden", [one for one in GOLDEN if "/" not in one.pattern], ids=lambda one: one.pattern)
def test_a_small_text_gives_its_numbers(golden: Golden) -> None:
    check(golden, OWN / golden.pattern)


@needs_fixtures
def test_every_row_of_the_tables_has_a_file() -> None:
    names = [*files(), *(path.name for path in OWN_SAMPLES)]
    patterns = [one.pattern for one in GOLDEN] + [row[0] for row in REFUSED]
    assert not [pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in names)]


def forms() -> list[Any]:
    """Return parser, label, text and outcome of each case of collectors/forms.cases, whose head explains their form."""
    _, *blocks = re.split(r"^= ", (OWN / "forms.cases").read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = []
    for block in blocks:
        head, *lines = block.splitlines()
        source, _, title = head.partition(": ")
        parser, _, label = source.partition(" ")
        text = "".join(f"{line}\n" for line in lines if not line.startswith("> ")).removesuffix("\\\n")
        outcome = [line.removeprefix("> ") for line in lines if line.startswith("> ")]
        found.append(pytest.param(parser, label, text, outcome, id=f"{parser}: {title}"))
    return found


@pytest.mark.parametrize(("parser", "label", "text", "outcome"), forms())
def test_a_form_gives_its_numbers_or_is_refused(parser: str, label: str, text: str, outcome: Sequence[str]) -> None:
    origin, readings, said = Origin("text", label=label), list[Reading](), list[str]()
    try:
        readings = list(PARSERS[parser](io.StringIO(text), origin))
    except ParseError as error:
        said.append(f"refused {error}")
    if origin.problems.count:
        said.append(f"left out {origin.problems.count}: {origin.problems.first[0]}")
    assert said == [line for line in outcome if line.startswith(("refused ", "left out "))]
    for line in outcome[len(said) :]:
        unit, _, wanted = line.removeprefix("only ").partition(" ")
        if not wanted.startswith("{"):
            metric, _, why = wanted.partition(": ")
            assert reason(readings, unit, metric) == why
            continue
        numbers = json.loads(wanted)
        assert {metric: values(readings, unit, metric) for metric in numbers} == numbers
        if line.startswith("only "):
            assert [(each.unit_path, [metric.name for metric in each.metrics]) for each in readings] == [
                (unit, list(numbers))
            ]
