# SPDX-License-Identifier: BSD-3-Clause
"""Specs: the declarative description of one experiment (docs/reference-spec.md)."""

from pollscope.spec.find import find_specs, known_specs
from pollscope.spec.load import LoadedSpec, Overrides, SpecError, load_file, load_text
from pollscope.spec.model import Spec

__all__ = [
    "LoadedSpec",
    "Overrides",
    "Spec",
    "SpecError",
    "find_specs",
    "known_specs",
    "load_file",
    "load_text",
]
