# SPDX-License-Identifier: BSD-3-Clause
"""Testbeds: where trials run. A kind is a class and a line in TESTBEDS (pollscope.base.names)."""

from pollscope.testbeds.base import HostAway, Knobs, Testbed, TestbedState
from pollscope.testbeds.config import make_testbed
from pollscope.testbeds.finding import HostFinding

DEFAULT = "loopback"

__all__ = ["DEFAULT", "HostAway", "HostFinding", "Knobs", "Testbed", "TestbedState", "make_testbed"]
