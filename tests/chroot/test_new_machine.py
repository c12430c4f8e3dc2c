# SPDX-License-Identifier: BSD-3-Clause
"""Test a clone on a bare Debian or Ubuntu that has only the packages of the README's apt line.

Not part of `make test`, because it runs `make test`: an hour and a half for all releases (make machine-test).
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian import MakeSystem, System
from failure_summary import failure_summary

README_PACKAGES = ["git", "make", "python3"]
HOME = str(Path("/opt") / "clone" / "pollscope")  # in parts: no file may name the path of its own checkout
USER, USER_HOME = "nobody", "/srv/pollscope"
LOGS = Path(__file__).resolve().parent.parent.parent / ".cache/machine-test"
RUN_LIMIT_S, TEST_LIMIT_S, SECOND_START_LIMIT_S = 8 * 60, 15 * 60, 5

pytestmark = [pytest.mark.machine, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module", params=["bookworm", "trixie", "noble"])
def machine(request: pytest.FixtureRequest, make_system: MakeSystem, checkout: Path) -> Iterator[System]:
    """Yield a new machine with a clone of the commit; tests of a release share it, in the order of this file."""
    with make_system(request.param, README_PACKAGES) as system:
        for home in (HOME, USER_HOME):
            clone = ["git", "-c", "safe.directory=*", "clone", "--quiet", "/source", home]
            done = system.run(clone, binds={checkout: "/source"})
            assert done.returncode == 0, done.stdout
        system.run(["chown", "-R", USER, USER_HOME])
        yield system


def log(system: System, name: str) -> Path:
    """Return the file that holds the whole output of a make."""
    return LOGS / f"{system.base.name}-{name}.log"


def make(system: System, *words: str, limit_s: float, user: str = "root") -> tuple[int, str, float]:
    """Return exit code, output and seconds of a make in the user's clone."""
    command = [
        "setpriv",
        f"--reuid={user}",
        "--clear-groups",
        "make",
        "--no-print-directory",  # as a user calls it, although this make runs below another
        "-C",
        HOME if user == "root" else USER_HOME,
        *words,
    ]
    started = time.monotonic()
    done = system.run(command, timeout_s=2 * limit_s)
    return done.returncode, done.stdout, time.monotonic() - started


def test_a_user_without_root_gets_the_list_of_packages(machine: System) -> None:
    code, shown, _ = make(machine, "build", limit_s=60, user=USER)
    assert code == 2
    assert "neither root nor sudo" in shown
    assert "libdpdk-dev" in shown
    assert not machine.written(f"{USER_HOME}/.venv").exists()


def test_make_run_ends_with_a_report(machine: System) -> None:
    code, shown, took_s = make(machine, "run", limit_s=RUN_LIMIT_S)
    assert code == 0, failure_summary(shown, log(machine, "run"))
    assert (machine.written(HOME) / "out/report.html").stat().st_size > 10_000
    assert shown.rstrip().splitlines()[-1].endswith("out/report.html")
    assert took_s < RUN_LIMIT_S


def test_a_second_make_run_measures_at_once(machine: System) -> None:
    code, shown, took_s = make(machine, "build", limit_s=60)
    assert code == 0, failure_summary(shown, log(machine, "build-again"))
    assert took_s < SECOND_START_LIMIT_S


def test_a_user_without_root_builds_when_nothing_is_missing(machine: System) -> None:
    code, shown, _ = make(machine, "build", limit_s=120, user=USER)
    assert code == 0, failure_summary(shown, log(machine, "build-user"))
    assert "hugepages stay as they are" in shown


def test_make_test_passes(machine: System) -> None:
    code, shown, took_s = make(machine, "test", limit_s=TEST_LIMIT_S)
    assert code == 0, failure_summary(shown, log(machine, "test"))
    assert " passed" in shown.rstrip().splitlines()[-1]
    assert took_s < TEST_LIMIT_S


def test_clean_host_leaves_no_journal(machine: System) -> None:
    code, shown, _ = make(machine, "clean-host", limit_s=120)
    assert code == 0, failure_summary(shown, log(machine, "clean-host"))
    assert not list(machine.written("/var/lib/pollscope/playbooks").glob("hugepages-*"))
