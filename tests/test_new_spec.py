# SPDX-License-Identifier: BSD-3-Clause
"""Test `pollscope new`: its spec is valid, commented and separate, and overwrites nothing."""

from pathlib import Path

import pytest
from command_line import pollscope
from shipped_specs import EXPERIMENTS, shipped

from pollscope.base.names import WORKLOADS
from pollscope.base.paths import data_folder
from pollscope.plan.blocks import has_blocks
from pollscope.spec import load_file


def test_the_template_is_valid_commented_and_borrows_no_row(tmp_path: Path) -> None:
    done = pollscope("new", "bursts", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "bursts.yaml\n", "next: pollscope plan bursts.yaml\n")
    spec = load_file(tmp_path / "bursts.yaml").spec
    assert (spec.name, spec.all_rows, len(spec.show), len(spec.claims)) == ("bursts", (), 1, 1)
    assert has_blocks(spec)
    assert (tmp_path / "bursts.yaml").read_text().count("#") > 10


def test_the_template_names_every_workload(tmp_path: Path) -> None:
    assert pollscope("new", "mine", cwd=tmp_path).returncode == 0
    assert ", ".join(WORKLOADS) in (tmp_path / "mine.yaml").read_text(encoding="utf-8")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_any_shipped_spec_is_a_start(tmp_path: Path, path: Path) -> None:
    assert pollscope("new", "mine", "--like", path, cwd=tmp_path).returncode == 0
    mine, theirs = load_file(tmp_path / "mine.yaml").spec, shipped(path).spec
    assert (mine.name, mine.all_rows, mine.paper) == ("mine", (), None)
    assert (mine.levels, mine.parameters, mine.quick) == (theirs.levels, theirs.parameters, theirs.quick)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["new", "My Spec"], "is not a spec name"),
        (["new", "there"], "is already there"),
        (["new", "x", "--like", "S-F99"], "is neither a file"),
        (["new", "x", "--like", "experiments"], "name one of them"),
    ],
)
def test_a_slip_is_answered_and_nothing_is_written(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    (tmp_path / "there.yaml").write_text("mine\n")
    (tmp_path / "experiments").symlink_to(data_folder("experiments"))
    done = pollscope(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert (tmp_path / "there.yaml").read_text() == "mine\n"
    assert not (tmp_path / "x.yaml").exists()
