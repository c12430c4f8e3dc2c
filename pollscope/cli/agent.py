# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope agent`: a runner on another host starts it here over SSH (docs/two-servers.md)."""

from pollscope.run.agent import main


def agent() -> None:
    """Serve a runner on another host through standard input and output: collectors, knobs and metadata of this host."""
    main()
