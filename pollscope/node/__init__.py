# SPDX-License-Identifier: BSD-3-Clause
"""The protocol spoken with pollscope-node (docs/internals/node-protocol.md)."""
