# SPDX-License-Identifier: BSD-3-Clause
"""pollscope: measure and characterise the inside of a host that moves packets."""

__version__ = "0.1.0"
