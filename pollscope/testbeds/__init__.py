# SPDX-License-Identifier: BSD-3-Clause
"""Testbeds: where trials run. One module per kind, one factory."""

from collections.abc import Sequence

from pollscope.testbeds.base import HostAway, Knobs, Measured, Session, State, Testbed
from pollscope.testbeds.config import config_path, load_config
from pollscope.testbeds.loopback import LoopbackTestbed
from pollscope.testbeds.pair.config import PairConfig
from pollscope.testbeds.pair.testbed import PairTestbed
from pollscope.testbeds.pairs import PairsConfig, PairsKnobs, PairsTestbed
from pollscope.testbeds.vm.testbed import VmPairConfig, VmPairTestbed

DEFAULT = "loopback"

__all__ = [
    "DEFAULT",
    "HostAway",
    "Knobs",
    "Measured",
    "Session",
    "State",
    "Testbed",
    "knobs_of_part",
    "make_testbed",
    "parts_of",
]


def parts_of(testbed: Testbed) -> Sequence[Testbed]:
    """The testbeds that measure: a testbed itself, or each of several pairs."""
    return testbed.parts if isinstance(testbed, PairsTestbed) else (testbed,)


def knobs_of_part(knobs: Knobs, part: str) -> Knobs:
    """The knobs of one of `parts_of`, by its name."""
    return knobs.parts[part] if isinstance(knobs, PairsKnobs) else knobs


def make_testbed(name: str) -> Testbed:
    """The testbed of a name or of a file.

    Raises:
        UsageError: there is no such testbed, or its file has an error.
    """
    path = config_path(name)
    config = load_config(path)
    if isinstance(config, PairConfig):
        return PairTestbed(path, config)
    if isinstance(config, PairsConfig):
        return PairsTestbed(path, config)
    return VmPairTestbed(path, config) if isinstance(config, VmPairConfig) else LoopbackTestbed(path, config)
