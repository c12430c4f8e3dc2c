# SPDX-License-Identifier: BSD-3-Clause
"""Check that the reference agent (apps/gpu) is one source for threads and GPUs; tests-driver runs it as a thread."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

AGENT = Path("apps/gpu/agent.c")
# clang reads CUDA without NVIDIA's toolkit; no library is there, so a call of one is an error.
AS_DEVICE_CODE = "-x cuda -nocudainc -nocudalib --cuda-device-only --cuda-gpu-arch=sm_70 -DAGENT_ON_GPU -ffreestanding"


def read_as_device_code(checkout: Path, source: Path) -> subprocess.CompletedProcess[str]:
    """Let the front end of clang-tidy compile `source` for a GPU."""
    tidy = Path(sys.prefix) / "bin/clang-tidy"
    if not tidy.exists():
        pytest.skip("clang-tidy of the development requirements is not installed")
    folders = [f"-I{checkout / folder}" for folder in ("apps/gpu", "apps/pmd")]
    command = [str(tidy), "--quiet", "--checks=-*,misc-redundant-expression", str(source)]
    return subprocess.run(
        [*command, "--", *AS_DEVICE_CODE.split(), "-Wall", "-Wextra", "-Werror", *folders],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_agent_is_device_code(checkout: Path) -> None:
    done = read_as_device_code(checkout, checkout / AGENT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_library_call_is_no_device_code(checkout: Path, tmp_path: Path) -> None:
    text, changes = re.subn(r"agent_same\(agent_clock\(\)\)", "agent_same(puts(0))", (checkout / AGENT).read_text())
    assert changes > 0
    (tmp_path / "agent.c").write_text(text)
    done = read_as_device_code(checkout, tmp_path / "agent.c")
    assert done.returncode != 0
    assert "puts" in done.stdout
