# SPDX-License-Identifier: BSD-3-Clause
"""Read testbed files: configs/testbeds/NAME.yaml, a modelled machine in configs/platforms, or a path.

A path has a `/` or ends in .yaml or .yml, so a file in the current folder cannot shadow a name.
"""

from pathlib import Path

from pydantic import ValidationError

from pollscope.base import document as documents
from pollscope.base.errors import UsageError
from pollscope.base.names import TESTBEDS, load
from pollscope.base.paths import data_folder
from pollscope.spec.checks import plain_message
from pollscope.testbeds.base import Testbed, TestbedConfig

# Prefix of the modelled machines in configs/platforms; the other files there are tables of processors.
MODELLED = "model-"
_FOLDERS = ("testbeds", "platforms")


def make_testbed(name: str) -> Testbed:
    """Return the testbed with this name or file.

    Raises:
        UsageError: there is no such testbed, or its file has an error.
    """
    path = _path_of(name)
    document = documents.parse(documents.read_text(path), str(path))
    kind = document.data.get("kind") if isinstance(document.data, dict) else None
    if not isinstance(kind, str) or kind not in TESTBEDS:
        what = "is not a testbed file: it has no 'kind'" if kind is None else f"kind is {kind!r}"
        raise UsageError(what, str(path), f"allowed: {', '.join(TESTBEDS)}")
    testbed: type[Testbed] = load(TESTBEDS, kind)
    return testbed(path, _checked(testbed.config_model, document))


def _path_of(name: str) -> Path:
    testbeds, platforms = (data_folder("configs") / folder for folder in _FOLDERS)
    if "/" in name or Path(name).suffix in (".yaml", ".yml"):
        named = [Path(name)]
    else:
        named = [testbeds / f"{name}.yaml", *([platforms / f"{name}.yaml"] if name.startswith(MODELLED) else [])]
    for path in named:
        if path.is_file():
            return path
    files = [*testbeds.glob("*.yaml"), *platforms.glob(f"{MODELLED}*.yaml")]
    known = ", ".join(sorted(path.stem for path in files))
    here = f"; ./{name} is a file here" if Path(name).is_file() and named[0] != Path(name) else ""
    raise UsageError("there is no such testbed", name, f"known: {known}; or give the path of a file{here}")


def _checked(model: type[TestbedConfig], document: documents.Document) -> TestbedConfig:
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        first = error.errors()[0]
        keys = document.locate(tuple(first["loc"]))
        what = "unknown key" if first["type"] == "extra_forbidden" else plain_message(first)
        if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            what = f"unknown key; allowed: {', '.join(model.model_fields)}"
        raise UsageError(what, f"{document.place(keys)}: {'.'.join(map(str, keys))}") from error
