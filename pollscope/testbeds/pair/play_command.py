# SPDX-License-Identifier: BSD-3-Clause
"""The command line of `playbooks/play`: runs one play on the hosts of an inventory and says what it did."""

import argparse
import sys
from collections.abc import Sequence
from getpass import getpass
from pathlib import Path

from pollscope.base.errors import ExitCode, PollscopeError
from pollscope.testbeds.pair.inventory import load_inventory
from pollscope.testbeds.pair.plays import PLAYS, PlayFailed, run_play


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one play and says what it did; returns the exit code."""
    parser = argparse.ArgumentParser(prog="playbooks/play", description="Run a play on the hosts of an inventory.")
    parser.add_argument("name", metavar="PLAY", choices=PLAYS, help=", ".join(PLAYS))
    parser.add_argument("-i", "--inventory", required=True, type=Path, help="see configs/testbeds/inventory-*.yml")
    parser.add_argument("-e", dest="variables", metavar="KEY=VALUE", action="append", default=[], help="a variable")
    parser.add_argument("--check", action="store_true", help="say what would change, change nothing")
    parser.add_argument("--limit", metavar="HOST", help="only this host")
    parser.add_argument("-K", "--ask-become-pass", action="store_true", help="ask for the password of sudo there")
    given = parser.parse_args(arguments)
    options = [*(["--check"] if given.check else []), *(["--limit", given.limit] if given.limit else [])]
    try:
        pairs = [each.partition("=") for each in given.variables]
        inventory = load_inventory(given.inventory)
        password = getpass("password of sudo on the hosts: ") if given.ask_become_pass else None
        variables = {key: value for key, _, value in pairs}
        result = run_play(given.name, inventory, variables, options=options, become_password=password)
    except PlayFailed as failed:
        for host, reason in failed.reasons.items():
            print(f"pollscope: {host}: {reason}", file=sys.stderr)
        return ExitCode.HOST
    except PollscopeError as error:
        print(f"pollscope: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    except (KeyboardInterrupt, EOFError):
        print("pollscope: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    print("\n".join(result.changes) or "nothing to change")
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
