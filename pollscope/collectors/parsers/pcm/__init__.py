# SPDX-License-Identifier: BSD-3-Clause
"""Outputs of Intel PCM's tools, one module per tool."""
