# SPDX-License-Identifier: BSD-3-Clause
"""Run the commands of docs/first-experiment.md in order, then its Python."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from run_helpers import Cli
from test_docs_commands import commands, shortened, words

PAGE = "docs/first-experiment.md"
MOST_LINES = 95


def test_the_page_is_short(checkout: Path) -> None:
    assert len((checkout / PAGE).read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_every_step_works_at_the_first_try(checkout: Path, build_dir: Path, tmp_path: Path) -> None:
    cli = Cli(tmp_path, node=build_dir / "pollscope-node")
    for command in commands(checkout / PAGE):
        done = cli(*shortened(words(command, tmp_path)))
        assert done.returncode == 0, f"$ {command}\n{done.stderr}"
    assert (tmp_path / "bursts.yaml").exists()
    assert len(cli.run_folders()) == 2
    assert any((folder / "report.html").exists() for folder in cli.run_folders())
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"gain.pdf", "gain.csv", "rate.svg", "rate.csv"} <= names
    assert {f"rx_pps-by-burst-lines-queues.{kind}" for kind in ("svg", "pdf", "png", "csv")} <= names
    (code,) = re.findall(r"^```python\n(.*?)^```$", (checkout / PAGE).read_text(), re.MULTILINE | re.DOTALL)
    table = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=cli.environment, capture_output=True, text=True, check=False
    )
    assert table.returncode == 0, table.stderr
    assert "metric.rx_pps" in table.stdout
