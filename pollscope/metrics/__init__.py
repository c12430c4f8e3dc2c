# SPDX-License-Identifier: BSD-3-Clause
"""Derive the metrics of a trial from its record, by pure functions and the metric dictionary."""

# Version of the rules by which trials are judged: counts up when a rule changes that can change a verdict;
# docs/internals/store-format.md lists what changed.
RULES = 5
