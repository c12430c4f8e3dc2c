# SPDX-License-Identifier: BSD-3-Clause
"""Simulations on a Dask cluster: each is a function of its arguments alone, so any worker gives the same bits."""

from collections.abc import Callable, Mapping
from typing import Any

from pollscope import __version__
from pollscope.base.errors import HostError

_CONNECT_S = 10
# A worker that died is replaced by another one; with none left for so long, the run ends and can go on later.
_WITHOUT_WORKER_S = 30


class Cluster:
    """A cluster's scheduler, and the simulations that were given to it.

    Args:
        address: of the scheduler, for instance `tcp://10.0.0.1:8786`.

    Raises:
        HostError: no Dask here, no scheduler or no worker there, or a worker with another pollscope.
    """

    def __init__(self, address: str) -> None:
        self._where = f"--dask {address}"
        try:
            from distributed import Client
        except ImportError:
            remedy = "pip install 'pollscope[dask]'"
            raise HostError("the package distributed is missing", self._where, remedy) from None
        try:
            connect: Any = Client  # without types of its own
            self._client = connect(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else "no answer"
            raise HostError(f"no scheduler answers: {reason}", self._where, "`dask scheduler` starts one") from None
        try:
            self._check_workers()
        except HostError:
            self.close()
            raise
        self._given: dict[str, Any] = {}

    def _check_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_CONNECT_S)
        except TimeoutError:
            raise self._none_left() from None
        versions = self._client.run(_version)
        if other := {worker: version for worker, version in versions.items() if version != __version__}:
            worker, version = next(iter(other.items()))
            raise HostError(f"the worker {worker} has pollscope {version}, here is {__version__}", self._where)

    def _none_left(self) -> HostError:
        return HostError("the cluster has no worker", self._where, "`dask worker ADDRESS` on each machine starts one")

    def give(self, name: str, function: Callable[..., Mapping[str, Any]], *arguments: Any) -> None:
        """Starts a simulation, if it was not given before."""
        if name not in self._given:
            self._given[name] = self._client.submit(function, *arguments, pure=False)

    def take(self, name: str) -> Mapping[str, Any]:
        """The result of a simulation that was given, once.

        Raises:
            HostError: no worker is left, or the scheduler is gone.
        """
        future = self._given.pop(name)
        from distributed import CancelledError, KilledWorker

        while True:
            try:
                found: Mapping[str, Any] = future.result(timeout=_WITHOUT_WORKER_S)
            except TimeoutError:
                if not self._client.scheduler_info()["workers"]:
                    raise self._none_left() from None
            except (CancelledError, KilledWorker, OSError) as error:
                raise HostError(
                    f"the cluster was lost: {type(error).__name__}", self._where, "--resume goes on"
                ) from None
            else:
                return found

    def close(self) -> None:
        """Leaves the cluster; simulations that nobody waits for are dropped."""
        self._client.close()


def _version() -> str:
    return __version__
