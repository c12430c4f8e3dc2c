# SPDX-License-Identifier: BSD-3-Clause
"""Compute simulations on a Dask cluster. Each is a function of its arguments alone, so any worker gives the same bits.

Anyone who reaches a Dask port can run code there as its user, and a scheduler can run code here, because Dask sends
pickles without a password. A cluster therefore listens on the loopback interface alone or uses TLS, unless its user
vouches for the network (PRIVATE).
"""

import contextlib
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from pollscope import __version__
from pollscope.base.errors import HostError

_CONNECT_S = 10
# The run ends, and can be resumed, when the cluster has had no worker for this time.
_WITHOUT_WORKER_S = 30
# Prefix of an address: the user asserts that only trusted hosts reach this network.
PRIVATE = "private+"


class Cluster:
    """Give simulations to a cluster's scheduler and take their results.

    Args:
        address: of the scheduler: `tcp://127.0.0.1:8786`, `tls://10.0.0.1:8786` or `private+tcp://10.0.0.1:8786`.

    Raises:
        HostError: there is no Dask here, no scheduler or no worker there, a worker with another pollscope, or a port
            that untrusted hosts can reach.
    """

    def __init__(self, address: str) -> None:
        self._where, self._vouched = f"--dask {address}", address.startswith(PRIVATE)
        address = address.removeprefix(PRIVATE)
        self._check_reach(address)
        try:
            from distributed import Client
        except ImportError:
            remedy = "pip install 'pollscope[dask]'"
            raise HostError("the package distributed is missing", self._where, remedy) from None
        try:
            connect: Any = Client  # it has no type annotations
            self._client = connect(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else "no answer"
            raise HostError(
                f"no scheduler answers: {reason}", self._where, "`dask scheduler --host 127.0.0.1` starts one"
            ) from None
        try:
            self._check_workers()
        except HostError:
            self.close()
            raise
        self._given: dict[str, Any] = {}

    def _check_reach(self, address: str) -> None:
        if self._vouched or address.startswith(("tls://", "inproc://")):
            return
        host = urlsplit(address if "://" in address else f"tcp://{address}").hostname or ""
        with contextlib.suppress(ValueError):
            if host == "localhost" or ip_address(host).is_loopback:
                return
        what = f"anyone who reaches {address} can run code there, and code from there runs here"
        remedy = f"dask scheduler --host 127.0.0.1, tls:// with certificates, or {PRIVATE}tcp:// in a private network"
        raise HostError(what, self._where, remedy)

    def _check_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_CONNECT_S)
        except TimeoutError:
            raise self._none_left() from None
        info = self._client.scheduler_info(n_workers=-1)
        for each in (info["address"], *info["workers"]):
            self._check_reach(each)
        versions = self._client.run(_version)
        if other := {worker: version for worker, version in versions.items() if version != __version__}:
            worker, version = next(iter(other.items()))
            raise HostError(f"the worker {worker} has pollscope {version}, here is {__version__}", self._where)

    def _none_left(self) -> HostError:
        return HostError("the cluster has no worker", self._where, "`dask worker ADDRESS --host 127.0.0.1` starts one")

    def give(self, name: str, function: Callable[..., Mapping[str, Any]], *arguments: Any) -> None:
        """Submit a simulation unless it was submitted before."""
        if name not in self._given:
            self._given[name] = self._client.submit(function, *arguments, pure=False)

    def take(self, name: str) -> Mapping[str, Any]:
        """Return the result of a submitted simulation, once.

        Raises:
            HostError: there is no worker or no scheduler any more.
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
                    f"the cluster was lost: {type(error).__name__}", self._where, "--resume continues the run"
                ) from None
            else:
                return found

    def close(self) -> None:
        """Leave the cluster and drop simulations whose results are not needed."""
        self._client.close()


def _version() -> str:
    return __version__
