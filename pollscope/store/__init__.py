# SPDX-License-Identifier: BSD-3-Clause
"""Run folders: writing, reading, and the table of a run (docs/internals/store-format.md)."""
