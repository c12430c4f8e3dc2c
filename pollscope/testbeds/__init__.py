# SPDX-License-Identifier: BSD-3-Clause
"""Testbeds: where trials run. One module per kind, one factory."""

from pollscope.testbeds.base import Knobs, Measured, Session, State, Testbed
from pollscope.testbeds.config import config_path, load_config
from pollscope.testbeds.loopback import LoopbackTestbed
from pollscope.testbeds.pair import PairTestbed
from pollscope.testbeds.pair_config import PairConfig
from pollscope.testbeds.vm_pair import VmPairConfig, VmPairTestbed

DEFAULT = "loopback"

__all__ = ["DEFAULT", "Knobs", "Measured", "Session", "State", "Testbed", "make_testbed"]


def make_testbed(name: str) -> Testbed:
    """The testbed of a name or of a file.

    Raises:
        UsageError: there is no such testbed, or its file has an error.
    """
    path = config_path(name)
    config = load_config(path)
    if isinstance(config, PairConfig):
        return PairTestbed(path, config)
    return VmPairTestbed(path, config) if isinstance(config, VmPairConfig) else LoopbackTestbed(path, config)
