# SPDX-License-Identifier: BSD-3-Clause
"""Testbeds: where trials run. One module per kind, one factory."""

from pollscope.testbeds.base import Measured, Session, State, Testbed
from pollscope.testbeds.config import config_path, load_config
from pollscope.testbeds.loopback import LoopbackTestbed

DEFAULT = "loopback"

__all__ = ["DEFAULT", "Measured", "Session", "State", "Testbed", "make_testbed"]


def make_testbed(name: str) -> Testbed:
    """The testbed of a name or of a file.

    Raises:
        UsageError: there is no such testbed, or its file has an error.
    """
    path = config_path(name)
    return LoopbackTestbed(path, load_config(path))
