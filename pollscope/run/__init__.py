# SPDX-License-Identifier: BSD-3-Clause
"""Runs: execute a plan on a testbed, with collectors and agents."""
