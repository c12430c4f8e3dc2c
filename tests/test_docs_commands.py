# SPDX-License-Identifier: BSD-3-Clause
"""Check that every `$ pollscope ...` line of a ```console block in the docs ends with exit code 0.

The commands of a page run in order in an empty folder, so a page can show a run and then its report. Blocks with
another fence (```console slow) are not run here. Runs have short windows and few repeats, because the test checks
what the commands do and not what they find.
"""

import re
import shlex
from pathlib import Path

import pytest
from command_line import pollscope

CHECKOUT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    lines = [line for block in BLOCK.findall(page.read_text()) for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ pollscope")]


APART = ["first-experiment.md"]  # test_first_experiment.py runs it and checks its files
LONG = ["diagnose.md", "reproduce.md", "results.md"]  # pages whose commands take longest
PAGES = [
    page
    for page in (CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md")))
    if commands(page) and page.name not in APART
]


def words(command: str, folder: Path) -> list[str]:
    """Return the arguments as a shell would; only quotes and `*` are expanded."""
    found: list[str] = []
    for word in shlex.split(command)[1:]:
        matches = sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else []
        found += matches or [word]
    return found


def shortened(arguments: list[str]) -> list[str]:
    """Return a run with short windows and few repeats; settings of the command win."""
    if arguments[0] != "run":
        return arguments
    return [arguments[0], "--set", "trial.window=20 ms", "--set", "repeats={count: 2}", *arguments[1:]]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.thorough if page.name in LONG else ()) for page in PAGES],
    ids=lambda page: page.name,
)
def test_documented_commands_work(
    page: Path,
    build_dir: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path_factory.mktemp("state")))  # and so a lock of its own
    monkeypatch.setenv("POLLSCOPE_NODE", str(build_dir / "pollscope-node"))
    monkeypatch.setenv("POLLSCOPE_CORUNNER", str(build_dir / "pollscope-corunner"))
    (tmp_path / "data").symlink_to(CHECKOUT / "data")
    for command in commands(page):
        done = pollscope(*shortened(words(command, tmp_path)), cwd=tmp_path)
        assert done.returncode == 0, f"{page.name}: $ {command}\n{(done.stdout + done.stderr)[-3000:]}"


def test_the_readme_shows_commands() -> None:
    assert len(commands(CHECKOUT / "README.md")) >= 3
