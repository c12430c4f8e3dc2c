# SPDX-License-Identifier: BSD-3-Clause
"""Collectors: sources of counters that are read during a trial."""
