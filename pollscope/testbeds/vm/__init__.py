# SPDX-License-Identifier: BSD-3-Clause
"""Two virtual machines made here, then measured as a pair."""
