# SPDX-License-Identifier: BSD-3-Clause
"""Read the state of this host from the kernel: processors, memory, noise, devices; lock, journal and restore it."""
