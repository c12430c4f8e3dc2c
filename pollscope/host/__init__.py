# SPDX-License-Identifier: BSD-3-Clause
"""What the kernel says about this host: processors, memory, noise, devices. Nothing here changes anything."""
