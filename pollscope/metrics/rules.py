# SPDX-License-Identifier: BSD-3-Clause
"""The version of the rules by which trials are judged; apart from them, for who compares versions only."""

# Counts up when a rule changes that can change a verdict; docs/store-format.md lists what changed.
RULES = 4
