# SPDX-License-Identifier: BSD-3-Clause
"""Testbed files: configs/testbeds/NAME.yaml, or a path."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pollscope.base import document as documents
from pollscope.base.errors import UsageError
from pollscope.base.paths import data_folder
from pollscope.spec.checks import plain_message
from pollscope.testbeds.pair.config import PairConfig
from pollscope.testbeds.pairs import PairsConfig
from pollscope.testbeds.vm.testbed import VmPairConfig


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


Config = LoopbackConfig | PairConfig | PairsConfig | VmPairConfig
_MODELS: dict[str, type[Config]] = {
    "loopback": LoopbackConfig,
    "pair": PairConfig,
    "pairs": PairsConfig,
    "vm-pair": VmPairConfig,
}


def load_config(path: Path) -> Config:
    """Reads and checks a testbed file.

    Raises:
        UsageError: with file, line and key.
    """
    document = documents.parse(documents.read_text(path), str(path))
    model = _model(document, path)
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        first = error.errors()[0]
        keys = document.locate(tuple(first["loc"]))
        what = "unknown key" if first["type"] == "extra_forbidden" else plain_message(first)
        if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            what = f"unknown key; allowed: {', '.join(model.model_fields)}"
        raise UsageError(what, f"{document.place(keys)}: {'.'.join(map(str, keys))}") from error


def _model(document: documents.Document, path: Path) -> type[Config]:
    kind = document.data.get("kind") if isinstance(document.data, dict) else None
    if kind not in _MODELS:
        raise UsageError(f"kind is {kind!r}", str(path), f"allowed: {', '.join(_MODELS)}")
    return _MODELS[kind]
