# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope schema`."""

import json

import typer

from pollscope.spec import Spec

EXAMPLES = ("pollscope schema > spec.schema.json",)


def schema() -> None:
    """Print the JSON Schema of a spec, for editors that check YAML while it is written."""
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "pollscope experiment spec"}
    typer.echo(json.dumps({**Spec.model_json_schema(), **title}, indent=2))
