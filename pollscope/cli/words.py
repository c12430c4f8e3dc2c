# SPDX-License-Identifier: BSD-3-Clause
"""Arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Setting = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the spec; dotted key, value in YAML."),
]
TestbedName = Annotated[str | None, typer.Option("--testbed", metavar="T", help="Where to run; default: loopback.")]
QuickFlag = Annotated[bool, typer.Option("--quick", help="The spec's shortened form: fewer levels, shorter windows.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]


def specs_of(words: list[str]) -> list[Path]:
    """The spec files that the words on the command line mean, each once.

    Raises:
        UsageError: a word that means no spec.
    """
    from pollscope.spec import find_specs

    return list(dict.fromkeys(path for word in words for path in find_specs(word)))
