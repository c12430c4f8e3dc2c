# SPDX-License-Identifier: BSD-3-Clause
"""Counters that are read (collectors) and host state that is set and restored (knobs)."""
