# SPDX-License-Identifier: BSD-3-Clause
"""Test the one list of everything that can be registered."""

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import get_args

import pytest

from pollscope.analysis.figures import figure_of
from pollscope.analysis.papers import load_paper
from pollscope.base.names import COLLECTORS, KNOBS, TESTBEDS, figure_rows, load, papers


@pytest.mark.parametrize(("table", "name"), [(table, name) for table in (KNOBS, COLLECTORS) for name in table])
def test_a_name_leads_to_the_class_that_bears_it(table: dict[str, str], name: str) -> None:
    assert load(table, name).name == name


@pytest.mark.parametrize("name", TESTBEDS)
def test_a_kind_of_testbed_leads_to_the_class_whose_files_bear_it(name: str) -> None:
    assert get_args(load(TESTBEDS, name).config_model.model_fields["kind"].annotation) == (name,)


def test_a_row_leads_to_the_figure_that_bears_it() -> None:
    for row in figure_rows():
        figure = figure_of(row)
        assert (figure.row, figure.paper in (None, *papers())) == (row, True)


def test_every_paper_can_be_read() -> None:
    for name in papers():
        assert load_paper(name).paper == name


@pytest.mark.parametrize("name", COLLECTORS)
def test_a_source_and_its_parser_bear_the_same_name(name: str) -> None:
    source, parser = load(COLLECTORS, name).__module__, load(COLLECTORS, name).parser.__module__
    # a family of related tools has a folder of parsers
    assert f"{parser}.".startswith(f"{source.replace('.sources.', '.parsers.')}.")


def test_specs_and_claims_are_read_without_the_implementations() -> None:
    code = (
        "import sys, pollscope.spec, pollscope.analysis.claims\n"
        "print([name for name in sys.modules if name.startswith(('pollscope.knobs', 'pollscope.collectors'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_two_classes_share_a_name(checkout: Path) -> None:
    places = defaultdict(list)
    for path in sorted((checkout / "pollscope").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(checkout)}:{node.lineno}")
    assert places and {name: found for name, found in places.items() if len(found) > 1} == {}
