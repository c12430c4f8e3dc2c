# SPDX-License-Identifier: BSD-3-Clause
"""Check the lock files: each package is pinned and hashed, no address is given, and both files agree."""

import re
import tomllib
from pathlib import Path

import pytest

LOCKS = ("requirements.lock", "requirements-dev.lock")
ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ;.*?)? ?((?:\\\n    --hash=sha256:[0-9a-f]{64} ?)+)$", re.MULTILINE)


def entries(path: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, version, _ in ENTRY.findall(path.read_text()):
        found.setdefault(name.lower().replace(".", "-"), set()).add(version)
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_is_a_pinned_and_hashed_package(checkout: Path, name: str) -> None:
    text = (checkout / name).read_text()
    assert len(entries(checkout / name)) > 30
    assert ENTRY.sub("", text).strip() == ""


def test_the_dev_lock_includes_the_other_lock_with_the_same_versions(checkout: Path) -> None:
    run, dev = (entries(checkout / name) for name in LOCKS)
    assert {name: dev.get(name) for name in run} == run


def test_every_dependency_of_the_project_is_locked(checkout: Path) -> None:
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[<>=!~;\[ ]", text, maxsplit=1)[0].lower().replace(".", "-") for text in requirements}

    assert names(project["dependencies"] + extras["build"]) <= entries(checkout / LOCKS[0]).keys()
    assert names([text for extra in extras.values() for text in extra]) <= entries(checkout / LOCKS[1]).keys()
