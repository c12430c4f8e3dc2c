# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope trace`."""

from pathlib import Path
from typing import Annotated

import typer

from pollscope.base.errors import UsageError
from pollscope.base.units import human_time
from pollscope.testbeds.made_traces import FLOWS, MEAN_PPS, PACKETS, make


def trace(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new trace file; it must not exist yet.")],
    packets: Annotated[int, typer.Option(min=2, help="Number of packets.")] = PACKETS,
    flows: Annotated[int, typer.Option(min=1, max=2**24, help="Number of flows; a few have most packets.")] = FLOWS,
    pps: Annotated[float, typer.Option(min=0.1, max=1e9, help="Mean rate in packets per second.")] = MEAN_PPS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 1,
) -> None:
    """Make a packet trace (pcap) for the parameter `trace`, with sizes, flows and gaps as between networks."""
    if file.exists():
        raise UsageError("the file exists", str(file), "give another name, or remove it")
    make(file, packets, flows, pps, seed)
    typer.echo(f"{file}: {packets} packets of at most {flows} flows, {human_time(packets / pps)}")
