# SPDX-License-Identifier: BSD-3-Clause
"""Two virtual machines that are made here and measured as a pair."""
