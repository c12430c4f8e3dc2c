# SPDX-License-Identifier: BSD-3-Clause
"""Measure a running DPDK program through the probe plug-in (docs/your-program.md).

`programs` finds programs, `pollscope.node` speaks the plug-in's protocol and turns its counters into classes per
thread, `table` and `openmetrics` show them, and `recording` writes a run folder.
"""
