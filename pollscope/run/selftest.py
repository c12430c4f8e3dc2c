# SPDX-License-Identifier: BSD-3-Clause
"""Runs the node's accounting self-test on this machine."""

import tempfile
from pathlib import Path
from typing import Any

from pollscope.knobs.session import KnobSession
from pollscope.spec.model import Parameters
from pollscope.testbeds.config import make_testbed
from pollscope.testbeds.loopback import LoopbackTestbed

# The node tries every mode at several packet rates, many times each.
LIMIT_S = 120.0


def run_selftest() -> list[dict[str, Any]]:
    """Return the rows of the node's `selftest` reply.

    Raises:
        HostError: the node does not start, or the host is in use.
        TrialError: the node hung or refused.
    """
    testbed = make_testbed("loopback")
    assert isinstance(testbed, LoopbackTestbed), "BUG: configs/testbeds/loopback.yaml is of another kind"
    testbed.check()
    params = Parameters(load_pps=0)
    with KnobSession("doctor --self-test"), tempfile.TemporaryDirectory() as folder:
        session = testbed.open(params, Path(folder) / "node.log")
        try:
            session.configure(params)
            return session.selftest(LIMIT_S)
        finally:
            session.close()
