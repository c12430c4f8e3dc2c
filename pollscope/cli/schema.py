# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope schema`."""

from pollscope.cli.words import echo_json
from pollscope.spec import Spec


def schema() -> None:
    """Print the JSON Schema of a spec, for editors that check YAML while it is written."""
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "pollscope experiment spec"}
    echo_json({**Spec.model_json_schema(), **title})
