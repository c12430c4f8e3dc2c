# SPDX-License-Identifier: BSD-3-Clause
"""Turn run folders into statistics, figures, verdicts and reports; nothing here needs a testbed."""

import logging

# Suppress matplotlib's message, on a busy host, that it builds its font cache.
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
