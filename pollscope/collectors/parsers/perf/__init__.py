# SPDX-License-Identifier: BSD-3-Clause
"""Outputs of Linux perf: `stat` with and without `--metric-only`, and `iostat`."""
