# SPDX-License-Identifier: BSD-3-Clause
"""The session of a loopback testbed whose DUT is a DPDK program (docs/your-program.md)."""

from collections.abc import Mapping
from typing import Any

from pollscope.node.clocks import clocks
from pollscope.node.requests import floor_request
from pollscope.spec.model import Parameters
from pollscope.testbeds.loopback import LoopbackSession
from pollscope.testbeds.program import DutProgram
from pollscope.testbeds.session import TrialRequest


class ProgramSession(LoopbackSession):
    """A program that is the DUT, and a node on the same CPUs that measures the host and the path without a DUT.

    The program runs as long as points need the same arguments. Between trials it is stopped (SIGSTOP), because it would
    poll on the CPUs that the node checks.
    """

    _program: DutProgram | None = None

    def configure(self, params: Parameters) -> dict[str, Any]:
        """Start the program of a point unless it runs already, and set up the generator; return what was configured.

        Raises:
            ProgramFailed, NodeRefused, NodeLost: the program or the generator beside it does not start.
        """
        self._take(params)
        program = self._program
        if program is not None and (program.ended or (program.command, program.roles) != (params.command, self._roles)):
            self._end_program()
        if self._program is None:
            self._program = DutProgram(params.command, self._roles, self._client.log)
            self.collector_options = {"dpdk-telemetry": {"file_prefix": self._program.prefix}}
        else:
            self._program.resume()
        try:
            return self._program.configure(params)
        except BaseException:
            self._end_program()
            raise

    def calibrate(self, _params: Parameters) -> dict[str, Any]:
        return {"absent": "the loop of a foreign program cannot be calibrated"}

    def floor(self, params: Parameters, request: TrialRequest) -> dict[str, Any] | str:
        self._take(params)
        self._configure(floor_request(params, self._wiring))
        return super().measure(request)

    def measure(self, request: TrialRequest) -> dict[str, Any]:
        """Measure one trial of the program that `configure` started.

        Raises:
            TrialError: program or generator failed; the next trial starts both again.
        """
        assert self._program is not None, "BUG: measured before it was configured"
        try:
            result = self._program.measure(request)
        except BaseException:  # also Ctrl-C: the program may be in the middle of anything
            self._end_program()
            raise
        self._program.pause()
        found = clocks(self.hello, self.measuring_cpus)
        return {**result, "clocks": found} if found else result

    @property
    def _lcores(self) -> Mapping[int, tuple[int, ...]]:
        return {} if self._program is None else self._program.lcores

    def _end_program(self) -> None:
        program, self._program = self._program, None
        if program is not None:
            program.close()

    def close(self) -> None:
        self._end_program()
        super().close()

    def end(self) -> None:
        self._end_program()
        super().end()
