# SPDX-License-Identifier: BSD-3-Clause
"""Testbeds: where trials run. A kind is a class and a line in TESTBEDS (pollscope.base.names)."""

from pollscope.testbeds.base import HostFinding, Testbed, TestbedState
from pollscope.testbeds.config import make_testbed

DEFAULT = "loopback"

__all__ = ["DEFAULT", "HostFinding", "Testbed", "TestbedState", "make_testbed"]
