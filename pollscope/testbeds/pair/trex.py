# SPDX-License-Identifier: BSD-3-Clause
"""TRex in stateless mode as the generator of a pair, in place of a node: asked through its Python API on its own host.

Written against its public documentation (TRex stateless support; Python API); never run against the real program.
"""

import json
import select
import subprocess
import time
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from pollscope.base.errors import HostError
from pollscope.base.fields import FCS_BYTES, StrictModel
from pollscope.node.client import NodeLost
from pollscope.testbeds.pair.other_generator import FIRST_SOURCE_PORT, OtherGenerator
from pollscope.testbeds.pair.ssh import Remote, root_command

THERE = Path(__file__).with_name("trex_there.py")
START_LIMIT_S, GRACE_S = 120.0, 30.0
NO_INTENTION = "TRex does not tell what it meant to send"


class TrexConfig(StrictModel):
    """How TRex runs on the generator's host."""

    folder: str = Field(pattern=r"^/\S+$", description="that holds t-rex-64 and automation/trex_control_plane")
    configuration: str = Field(default="/etc/trex_cfg.yaml", pattern=r"^/\S+$", description="its ports 0 and 1")
    cores: int = Field(default=1, ge=1, le=64, description="that send, for each pair of its ports")

    @property
    def program(self) -> str:
        """The server."""
        return f"{self.folder}/t-rex-64"


class Trex(OtherGenerator):
    """TRex on the generator's host.

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
        "total": "ports of TRex count whatever arrives, so that they do not tell how many packets were lost",
        "latency_ns": "TRex stamps packets of a stream of its own when it sends them: no distribution of the load's "
        "latency, and nothing from the intended time of sending",
        "sequence": "TRex numbers the packets of its latency stream alone",
        "host_gaps": "TRex does not watch its cores for gaps",
    }

    def __init__(self, remote: Remote, config: TrexConfig, names: tuple[str, str], log: Path) -> None:
        super().__init__(names)
        self._log = log
        words = ["python3", "-c", THERE.read_text(), config.folder, config.configuration, str(config.cores)]
        with log.open("ab") as said:
            self._program = subprocess.Popen(
                root_command(remote, words),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                start_new_session=True,
            )

    def wait_hello(self) -> dict[str, Any]:
        """Waits until TRex answers there.

        Raises:
            HostError: it ended, or does not answer.
        """
        try:
            self._answer(START_LIMIT_S)
        except NodeLost as error:
            self.end()
            raise HostError(str(error), str(self._log), "its last lines there say why") from error
        return self._said_hello()

    @property
    def alive(self) -> bool:
        """Whether it and the connection are there."""
        return self._program.poll() is None

    def _configure(self, limit_s: float) -> None:
        """Streams are made for each trial."""

    def _trial(self) -> dict[str, Any]:
        start, rate = self._start, self._start["rate"]
        trial = {
            "size": int(self._generator["frame"][0]["bytes"]) - FCS_BYTES,
            "flows": self._generator["flows"],
            "first_port": FIRST_SOURCE_PORT,
            "rate": {"pps": rate["pps"]} if "pps" in rate else {"share": rate.get("line_share", 1.0)},
            "latency": bool(self._generator.get("rx_port")),
            "receiving": self._receiving,
            **{f"{name}_s": start[key] / 1e9 for name, key in _TIMES.items()},
        }
        said = self._asked(trial, sum(trial[f"{name}_s"] for name in _TIMES) + GRACE_S)
        latency = said["latency"] or {"absent": "its latency stream was not sent"}
        return self._measured(said["before"], said["after"], {"trex_latency": latency})

    def _asked(self, question: dict[str, Any], limit_s: float) -> dict[str, Any]:
        assert self._program.stdin is not None
        try:
            self._program.stdin.write(json.dumps(question) + "\n")
            self._program.stdin.flush()
        except BrokenPipeError as error:
            raise NodeLost(f"TRex is gone (ssh: status {self._program.wait(5)})") from error
        return self._answer(limit_s)

    def _answer(self, limit_s: float) -> dict[str, Any]:
        assert self._program.stdout is not None
        deadline = time.monotonic() + limit_s
        while select.select([self._program.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            line = self._program.stdout.readline()
            if not line:
                raise NodeLost(f"TRex ended with status {self._program.wait(5)}")
            if line.startswith("{"):  # its API may print
                return dict(json.loads(line))
        raise NodeLost("TRex hung: no answer")

    def close(self) -> None:
        """Its host's side ends it when its input does."""
        self.end()

    def end(self) -> None:
        """Ends the connection, and so TRex."""
        assert self._program.stdin is not None and self._program.stdout is not None
        try:
            self._program.stdin.close()
            self._program.wait(10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._program.kill()
            self._program.wait()
        self._program.stdout.close()


_TIMES = {"warmup": "warmup_ns", "window": "window_ns", "drain": "drain_max_ns"}
