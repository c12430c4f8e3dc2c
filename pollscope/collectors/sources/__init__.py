# SPDX-License-Identifier: BSD-3-Clause
"""Sources of counters: one file per source or family of tools; the parser in `parsers/` has the same name."""
