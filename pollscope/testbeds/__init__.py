# SPDX-License-Identifier: BSD-3-Clause
"""Testbeds: where trials run. A kind is a class and a line in TESTBEDS (pollscope.base.names)."""

from pollscope.testbeds.base import HostAway, Knobs, State, Testbed
from pollscope.testbeds.config import make_testbed
from pollscope.testbeds.finding import Finding

DEFAULT = "loopback"

__all__ = ["DEFAULT", "Finding", "HostAway", "Knobs", "State", "Testbed", "make_testbed"]
