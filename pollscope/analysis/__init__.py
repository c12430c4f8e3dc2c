# SPDX-License-Identifier: BSD-3-Clause
"""From run folders to statistics, figures, verdicts and reports; nothing here needs a testbed."""
