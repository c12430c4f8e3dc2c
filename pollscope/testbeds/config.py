# SPDX-License-Identifier: BSD-3-Clause
"""Testbed files: configs/testbeds/NAME.yaml, or a path."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pollscope.errors import UsageError
from pollscope.places import data_folder
from pollscope.spec import document as documents
from pollscope.spec.checks import plain_message


class Cpus(BaseModel):
    """CPUs given by hand."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    main: int = Field(ge=0)
    generator: int = Field(ge=0)
    dut: Annotated[tuple[int, ...], Field(strict=False, min_length=1)]


class LoopbackConfig(BaseModel):
    """The file of a loopback testbed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["loopback"]
    cpus: Literal["auto"] | Cpus = "auto"
    hugepages: Literal["auto", "always", "never"] = "auto"
    knob_root: str | None = Field(
        default=None, description="a folder with sys, proc, dev and state whose knobs are turned instead of this host's"
    )


def config_path(name: str) -> Path:
    """The file that a testbed's name or path means.

    Raises:
        UsageError: there is none; lists those that there are.
    """
    folder = data_folder("configs") / "testbeds"
    for path in (Path(name), folder / f"{name}.yaml"):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml")))
    raise UsageError("there is no such testbed", name, f"known: {known}; or give the path of a file")


def load_config(path: Path) -> LoopbackConfig:
    """Reads and checks a testbed file.

    Raises:
        UsageError: with file, line and key.
    """
    try:
        document = documents.parse(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", str(path)) from error
    try:
        return LoopbackConfig.model_validate(document.data)
    except ValidationError as error:
        first = error.errors()[0]
        keys = document.locate(tuple(first["loc"]))
        what = (
            "unknown key; allowed: kind, cpus, hugepages, knob_root"
            if first["type"] == "extra_forbidden"
            else plain_message(first)
        )
        raise UsageError(what, f"{document.place(keys)}: {'.'.join(map(str, keys))}") from error
