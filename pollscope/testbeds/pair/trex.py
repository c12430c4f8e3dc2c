# SPDX-License-Identifier: BSD-3-Clause
"""Use TRex in stateless mode as the generator of a pair, through its Python API on its own host.

This is written against its public documentation (TRex stateless support; Python API) and was never run against the real
program.

TRex takes requests without a password on ports 4500, 4501 and 4507 of all addresses. It therefore runs in a network
namespace of its own, where only processes of root can reach these ports.
"""

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from pollscope.base.errors import HostError
from pollscope.base.fields import FCS_BYTES, StrictModel
from pollscope.node.client import NodeLost
from pollscope.testbeds.pair.other_generator import (
    DESTINATION_PORT,
    FIRST_SOURCE_PORT,
    SAFE_PATH,
    SOURCE,
    OtherGenerator,
    SentProgram,
    destinations,
)
from pollscope.testbeds.pair.ssh import Remote, root_command

THERE = Path(__file__).with_name("trex_there.py")
START_LIMIT_S, GRACE_S = 120.0, 30.0
NO_INTENTION = "TRex does not report how many packets were due"
# The shell brings up the loopback interface of the namespace, then replaces itself: $0 is the source, $@ its arguments.
_IN_A_NAMESPACE = ("unshare", "--net", "--", "sh", "-c", 'ip link set lo up && exec python3 -c "$0" "$@"')


class TrexConfig(StrictModel):
    """Describe how TRex runs on the generator's host."""

    folder: str = Field(pattern=r"^/\S+$", description="folder with t-rex-64 and automation/trex_control_plane")
    configuration: str = Field(default="/etc/trex_cfg.yaml", pattern=r"^/\S+$", description="its ports 0 and 1")
    cores: int = Field(default=1, ge=1, le=64, description="sending cores per pair of its ports")
    own_network: bool = Field(
        default=True,
        description="run in a network namespace of its own; false: for NICs with a kernel interface (mlx5), and then "
        "every host that reaches ports 4500, 4501 and 4507 there can command TRex",
    )

    @property
    def program(self) -> str:
        """Return the path of the server."""
        return f"{self.folder}/t-rex-64"


class Trex(OtherGenerator):
    """Own TRex on the generator's host.

    Args:
        remote: the generator's host.
        config: see TrexConfig.
        names: of the sending and of the receiving port; may be one.
        log: for what ssh and the program write.
    """

    driver = "trex"
    absences: ClassVar = {
        "intended": NO_INTENTION,
        "unsent": NO_INTENTION,
        "total": "ports of TRex count every arriving packet, so the number of lost packets is unknown",
        "latency_ns": "TRex stamps packets of a separate stream at sending: no distribution of the load's "
        "latency, and no latency from the intended time of sending",
        "sequence": "TRex numbers only the packets of its latency stream",
        "host_gaps": "TRex does not watch its cores for gaps",
    }

    def __init__(self, remote: Remote, config: TrexConfig, names: tuple[str, str], log: Path) -> None:
        self._log = log
        start = _IN_A_NAMESPACE if config.own_network else ("python3", "-c")
        words = [*start, SAFE_PATH + THERE.read_text(), config.folder, config.configuration, str(config.cores)]
        super().__init__(names, SentProgram(root_command(remote, words), log, "TRex"))

    def wait_hello(self) -> dict[str, Any]:
        """Wait until TRex answers there.

        Raises:
            HostError: it ended, or does not answer.
        """
        try:
            self._program.answer(START_LIMIT_S)
        except NodeLost as error:
            self.end()
            raise HostError(str(error), str(self._log), "its last lines there give the reason") from error
        return self._said_hello()

    def _configure(self, limit_s: float) -> None:
        """Do nothing: streams are made for each trial."""

    def _trial(self) -> dict[str, Any]:
        start, rate = self._start, self._start["rate"]
        trial = {
            "size": int(self._generator["frame"][0]["bytes"]) - FCS_BYTES,
            "flows": self._generator["flows"],
            "first_port": FIRST_SOURCE_PORT,
            "source": SOURCE,
            "destination": str(destinations(self._generator["routes"], 1).first),
            "port": DESTINATION_PORT,
            "rate": {"pps": rate["pps"]} if "pps" in rate else {"share": rate.get("line_share", 1.0)},
            "latency": bool(self._generator.get("rx_port")),
            "receiving": self._receiving,
            **{f"{name}_s": start[key] / 1e9 for name, key in _TIMES.items()},
        }
        said = self._program.ask(trial, sum(trial[f"{name}_s"] for name in _TIMES) + GRACE_S)
        latency = said["latency"] or {"absent": "its latency stream was not sent"}
        return self._measured(said["before"], said["after"], {"trex_latency": latency})


_TIMES = {"warmup": "warmup_ns", "window": "window_ns", "drain": "drain_max_ns"}
