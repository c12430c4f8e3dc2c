# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope build`."""

from typing import Annotated

import typer

from pollscope.cli.words import say
from pollscope.testbeds import DEFAULT, make_testbed

EXAMPLES = (
    "pollscope build              on this machine, for the testbed loopback",
    "pollscope build lab.yaml     on the hosts of a pair, in the cache of the user there",
)


def build(
    testbed: Annotated[
        str, typer.Argument(metavar="[TESTBED]", help="A name in configs/testbeds, or the path of a file.")
    ] = DEFAULT,
) -> None:
    """Makes pollscope-node and the other programs where a testbed needs them, and says where they are.

    They are compiled from the sources that came with this pollscope; what was built before is not built again. The
    compiler, DPDK and the other packages are not installed by it: it names what is missing. On hosts that `pollscope
    play provision` makes ready there is nothing to build.
    """
    for line in make_testbed(testbed).build(say):
        typer.echo(line)
