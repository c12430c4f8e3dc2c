# SPDX-License-Identifier: BSD-3-Clause
"""Run the command line as `python -m pollscope`."""

from pollscope.cli import main

if __name__ == "__main__":
    main()
