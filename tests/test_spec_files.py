# SPDX-License-Identifier: BSD-3-Clause
"""Every spec in good/ loads, every one in bad/ fails with the text beside it; dropping in a file adds a test."""

import re
from pathlib import Path

import pytest

from pollscope.base.errors import UsageError
from pollscope.spec import Overrides, SpecError, load_file, load_text

FOLDER = Path(__file__).parent / "specs"
CHECKOUT = FOLDER.parent.parent
EXPERIMENTS = sorted((CHECKOUT / "experiments").rglob("*.yaml"))


def blocks_of_the_document() -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (CHECKOUT / "docs/spec.md").read_text(), re.DOTALL)


def load_both(path: Path) -> None:
    if load_file(path).spec.quick is not None:
        load_file(path, Overrides(quick=True))


@pytest.mark.parametrize("path", sorted((FOLDER / "good").glob("*.yaml")), ids=lambda path: path.stem)
def test_good_specs_load(path: Path) -> None:
    load_both(path)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_shipped_experiments_load(path: Path) -> None:
    load_both(path)


@pytest.mark.parametrize("path", sorted((FOLDER / "bad").glob("*.yaml")), ids=lambda path: path.stem)
def test_bad_specs_say_where_and_what(path: Path) -> None:
    wanted = path.with_suffix(".txt").read_text().strip()
    with pytest.raises(UsageError) as caught:
        load_both(path)
    problems = caught.value.problems if isinstance(caught.value, SpecError) else [caught.value]
    lines = [str(problem) for problem in problems]
    assert any(wanted in line for line in lines), lines
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize("index", range(len(blocks_of_the_document())))
def test_examples_of_the_document_load(index: int) -> None:
    block = blocks_of_the_document()[index]
    loaded = load_text(block, "docs/spec.md")
    if loaded.spec.quick is not None:
        load_text(block, "docs/spec.md", Overrides(quick=True))


def test_the_reference_explains_every_key() -> None:
    from pollscope.spec.model import LOADS, Parameters, Spec

    reference = max(blocks_of_the_document(), key=len)
    keys = [info.alias or name for model in (Spec, Parameters) for name, info in model.model_fields.items()]
    missing = [key for key in keys if not re.search(rf"\b{key}\b", reference)]
    assert missing == []
    assert all(load in reference for load in LOADS)


def test_rows_are_found_and_unique() -> None:
    names: dict[str, Path] = {}
    for path in EXPERIMENTS:
        spec = load_file(path).spec
        for name in (spec.name, *spec.all_rows):
            assert names.setdefault(name, path) == path, f"{name} is in {names[name]} and in {path}"
