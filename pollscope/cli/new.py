# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope new`."""

import re
from pathlib import Path
from typing import Annotated

import typer

from pollscope.base.document import read_text
from pollscope.base.errors import HostError, UsageError
from pollscope.base.names import WORKLOADS
from pollscope.base.paths import data_folder
from pollscope.cli.words import say
from pollscope.spec import find_specs, known_specs, load_text

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# Keys that belong to a paper; a spec for your own question has none of them.
_OF_THE_PAPER = ("row", "rows", "paper", "source", "must", "notes")


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of spec and runs: lower case, digits, dashes.")],
    like: Annotated[
        str | None,
        typer.Option(
            "--like", metavar="ROW", help="Start from this spec: file, name or paper row.", autocompletion=known_specs
        ),
    ] = None,
) -> None:
    """Write NAME.yaml, a commented spec to change. The file is valid as it is: `pollscope run NAME.yaml` measures it.

    With --like the file is that spec without its row, so that its figures and claims are its own. Nothing is
    overwritten.
    """
    stem = name.removesuffix(".yaml")
    if not NAME.fullmatch(stem):
        raise UsageError("is not a spec name", f"'{name}'", "lower case, digits and dashes: bursts, deeper-rings")
    path = Path(f"{stem}.yaml")
    template = read_text(data_folder("configs") / "new-spec.yaml").replace("NAME", stem)
    text = template.replace("WORKLOADS", ", ".join(WORKLOADS)) if like is None else _like(like, stem)
    load_text(text, str(path))  # checks the text before it is written
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError("is already there", str(path), "another name, or change that file") from None
    except OSError as error:
        raise HostError(f"cannot be written: {error.strerror}", str(path), "go to another folder") from None
    typer.echo(path)
    say(f"next: pollscope plan {path}")


def _like(word: str, name: str) -> str:
    found = find_specs(word)
    if len(found) > 1:
        raise UsageError(f"are {len(found)} specs", f"--like {word}", "name one of them")
    text = read_text(found[0])
    load_text(text, str(found[0]))  # reports errors with the lines of the original
    blocks = _blocks(text)
    kept = [block for key, block in blocks if key not in (*_OF_THE_PAPER, "name", "format", "")]
    origin = f"# Copied from {found[0].name}; change the question."
    head = ["# SPDX-License-Identifier: BSD-3-Clause", origin, "format: 1", f"name: {name}"]
    return "\n".join([*head, "".join(kept)])


def _blocks(text: str) -> list[tuple[str, str]]:
    """Return the top-level keys of a YAML file with their lines and comments; the lines before the first key under
    ''.
    """
    blocks: list[tuple[str, str]] = [("", "")]
    pending = ""
    for line in text.splitlines(keepends=True):
        key = re.match(r"([a-z_]+):", line)
        if key:
            blocks.append((key.group(1), pending + line))
            pending = ""
        elif not line.strip() or line.startswith("#"):
            pending += line
        else:
            blocks[-1] = (blocks[-1][0], blocks[-1][1] + pending + line)
            pending = ""
    return [*blocks, ("", pending)] if pending.strip() else blocks
