# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope agent`: what a runner on another host starts here over SSH (docs/testbeds.md)."""

from pollscope.run.agent import main

EXAMPLES = ("pollscope agent                          one JSON request a line, one reply a line",)


def agent() -> None:
    """Serves a runner on another host through standard input and output: collectors, knobs and facts of this one."""
    main()
