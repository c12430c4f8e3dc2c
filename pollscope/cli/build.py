# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope build`."""

from typing import Annotated

import typer

from pollscope.cli.words import echo, say
from pollscope.testbeds import DEFAULT, make_testbed


def build(
    testbed: Annotated[
        str, typer.Argument(metavar="[TESTBED]", help="A name in configs/testbeds, or the path of a file.")
    ] = DEFAULT,
) -> None:
    """Build pollscope-node and the other programs where a testbed needs them, and print where they are.

    They are compiled from the sources of this pollscope unless they were built before. The compiler, DPDK and other
    packages are not installed; missing ones are named. After `pollscope play provision` a host needs no build.
    """
    echo(make_testbed(testbed).build(say))
