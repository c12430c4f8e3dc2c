# SPDX-License-Identifier: BSD-3-Clause
"""The packages of the wheel: the code, three top-level folders as packages of data, and `sources`, what builds the
programs and makes hosts ready (see pyproject.toml).
"""

import os
import subprocess
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

FOLDERS = ("configs", "data", "experiments", "sources")
HERE = Path(__file__).parent


class TrackedData(build_py):
    """Leave out files that git does not track: a user's keys, inventories or results may lie in the folders."""

    def find_data_files(self, package: str, src_dir: str) -> list[str]:
        found: list[str] = super().find_data_files(package, src_dir)
        # An archive has no git; an editable installation copies nothing.
        if self.editable_mode or not (HERE / ".git").exists():
            return found
        command = ["git", "-C", str(HERE), "ls-files", "-z"]
        tracked = set(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.split("\0"))
        return [file for file in found if os.path.relpath(file, HERE) in tracked]


setup(
    packages=[*find_packages(include=["pollscope*"]), *(f"pollscope.{name}" for name in FOLDERS)],
    cmdclass={"build_py": TrackedData},
)
