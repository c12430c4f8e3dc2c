# SPDX-License-Identifier: BSD-3-Clause
"""The program can be built with a DPDK that lacks what only one workload needs."""

import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
LIMIT_S = 240


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.skipif(shutil.which("meson") is None, reason="meson is not installed")
@pytest.mark.timeout(LIMIT_S + 60)
def test_without_the_cryptodev_library(tmp_path: Path) -> None:
    """Its stand-in is compiled, and nothing that includes the library's headers is left."""
    build = tmp_path / "build"
    run("meson", "setup", build, CHECKOUT / "apps", "-Dcrypto=disabled", "-Dcrossover=false")
    run("ninja", "-C", build, "pollscope-node.p/node_workload_no_encryptor.c.o")
    compiled = (build / "compile_commands.json").read_text()
    assert "workload/no_encryptor.c" in compiled
    assert "workload/encryptor.c" not in compiled
