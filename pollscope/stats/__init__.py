# SPDX-License-Identifier: BSD-3-Clause
"""Statistics that know nothing of packets: estimates, change points, histograms."""
