# SPDX-License-Identifier: BSD-3-Clause
"""Check that the generated tables of docs/ match the code."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", DOCS / "tables.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_the_tables_of_a_page_match_the_code(tables: ModuleType, page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert tables.with_tables(text) == text, "make tables"


def test_every_table_stands_on_one_page(tables: ModuleType) -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    found = [each[2] for each in tables.PLACE.finditer(pages)]
    assert sorted(found) == sorted(tables.TABLES)
