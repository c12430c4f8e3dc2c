# SPDX-License-Identifier: BSD-3-Clause
"""What all tests share: where the checkout is and where the C side is built."""

import os
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
BUILD_VARIABLE = "POLLSCOPE_BUILD"  # another folder than build/, for instance while `make run` uses that one


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of single tests."""
    parser.addoption("--sequences", type=int, default=20_000, help="test_reordering: generated sequences to compare")


def _build(folder: Path, *options: str) -> Path:
    """Configure (once) and build the C side; up to date when this returns."""
    if not (folder / "build.ninja").exists():
        _tell("meson", "setup", str(folder), str(CHECKOUT / "apps"), *options)
    _tell("ninja", "-C", str(folder))
    return folder


def _tell(*command: str) -> None:
    done = subprocess.run(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-4000:]}"


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The top folder of the project."""
    return CHECKOUT


@pytest.fixture(scope="session")
def build_dir() -> Path:
    """The folder with pollscope-node, librte_net_crossover.so and the C tests, up to date."""
    return _build(Path(os.environ.get(BUILD_VARIABLE, CHECKOUT / "build")))


@pytest.fixture(scope="session")
def asan_build_dir() -> Path:
    """The same under AddressSanitizer and UndefinedBehaviorSanitizer."""
    return _build(CHECKOUT / "build-asan", "-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=1")
