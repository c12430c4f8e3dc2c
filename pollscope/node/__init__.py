# SPDX-License-Identifier: BSD-3-Clause
"""Speak with pollscope-node (docs/internals/node-protocol.md), and with the probe plug-in in a program."""
