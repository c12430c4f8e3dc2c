# SPDX-License-Identifier: BSD-3-Clause
"""The packages of the wheel: the code, and three top-level folders as packages of data (see pyproject.toml)."""

from setuptools import find_packages, setup

FOLDERS = ("configs", "data", "experiments")

setup(packages=[*find_packages(include=["pollscope*"]), *(f"pollscope.{name}" for name in FOLDERS)])
