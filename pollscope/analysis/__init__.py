# SPDX-License-Identifier: BSD-3-Clause
"""From run folders to statistics, figures, verdicts and reports; nothing here needs a testbed."""

import logging

# On a busy host matplotlib says on standard error that it builds its font cache: once, in the middle of any command.
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
