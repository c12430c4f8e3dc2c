# SPDX-License-Identifier: BSD-3-Clause
"""Kernel TCP between network namespaces of this host, through forwarding cores."""
