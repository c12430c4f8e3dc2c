# SPDX-License-Identifier: BSD-3-Clause
"""Two real servers, reached over SSH."""
