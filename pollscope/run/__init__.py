# SPDX-License-Identifier: BSD-3-Clause
"""Runs: plan executed on a testbed, collectors and agent beside it."""
