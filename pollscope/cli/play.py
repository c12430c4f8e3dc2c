# SPDX-License-Identifier: BSD-3-Clause
"""The command `pollscope play`; in a checkout playbooks/play starts it as well."""

from getpass import getpass
from pathlib import Path
from typing import Annotated

import typer

from pollscope.base.errors import ExitCode
from pollscope.cli.words import say
from pollscope.testbeds.pair.inventory import load_inventory
from pollscope.testbeds.pair.plays import PLAYS, PlayFailed, run_play


def play(
    name: Annotated[str, typer.Argument(metavar="PLAY", help=f"{', '.join(PLAYS)}.", autocompletion=lambda: [*PLAYS])],
    inventory: Annotated[
        Path, typer.Option("-i", "--inventory", metavar="FILE", help="The hosts: see configs/testbeds/inventory-*.yml.")
    ],
    variables: Annotated[
        list[str] | None, typer.Option("-e", "--set", metavar="KEY=VALUE", help="A variable; repeatable.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="List the changes without making them.")] = False,
    limit: Annotated[str | None, typer.Option("--limit", metavar="HOST", help="Only this host.")] = None,
    ask: Annotated[
        bool, typer.Option("-K", "--ask-become-pass", help="Ask for the sudo password, which is sent to every host.")
    ] = False,
) -> None:
    """Run an Ansible play on the hosts of an inventory and list its changes.

    An inventory is code, as a script is: it can name commands that run here and on the hosts.
    """
    options = [*(["--check"] if check else []), *(["--limit", limit] if limit else [])]
    given = {key: value for key, _, value in (each.partition("=") for each in variables or ())}
    hosts = load_inventory(inventory)
    try:
        password = getpass("sudo password (sent to every host): ") if ask else None
    except EOFError as error:
        raise KeyboardInterrupt from error
    try:
        result = run_play(name, hosts, given, options=options, become_password=password)
    except PlayFailed as failed:
        for host, reason in failed.reasons.items():
            say(f"pollscope: {host}: {' '.join(reason.split())}")
        raise typer.Exit(ExitCode.HOST) from failed
    except KeyboardInterrupt:
        if not check and name != "verify":
            kept = f"its changes so far stay; `pollscope play {name}` continues"
            say(f"{kept}, `pollscope play restore -i {inventory}` restores all")
        raise
    typer.echo("\n".join(result.changes) or "nothing to change")
