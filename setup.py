# SPDX-License-Identifier: BSD-3-Clause
"""The packages of the wheel: the code, three top-level folders as packages of data, and `sources`, what builds the
programs and makes hosts ready (see pyproject.toml).
"""

from setuptools import find_packages, setup

FOLDERS = ("configs", "data", "experiments", "sources")

setup(packages=[*find_packages(include=["pollscope*"]), *(f"pollscope.{name}" for name in FOLDERS)])
