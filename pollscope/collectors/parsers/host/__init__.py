# SPDX-License-Identifier: BSD-3-Clause
"""Texts of the kernel about this host, and of lscpu."""
