#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare cores that share one receive queue without a lock with one core (docs/queue-sharing-and-notification.md).

The node's workloads l3fwd-lpm and ipsec, as one core or two do them on what one RX queue of net_crossover brings, by
each way to share it. Cores also play the NIC: who has received sends a burst of fresh frames to the queue, in every
loop alike, so two CPUs will do. Loops take turns within a round, rates are frames for each second that a core was had,
and a window in which something else had more than a tenth of a core is repeated.

Prints the ground: nanoseconds in which a cache line goes to and fro between the CPUs, median and range. Ground is cheap
in rounds in which this takes at most CHEAP_NS and two processes do at least APART times what one does (two CPUs may be
threads of one core), and dear in the others; what begins on the one and ends on the other is `changing`. Then, each
with the 95 % interval of the median over the N rounds on this HOST_STATE, for WORKLOAD l3fwd and ipsec and with
`HOST_STATE_WORKLOAD_` in front of its name,
`ratio corec_one_core ...`: one core, rx=corec over rx=standard;
`ratio {corec,locked,trylock}_two_cores ...`: two cores over one with rx=standard: without a lock, and on the standard
path behind a lock that is waited for, or that is passed by when taken;
`ratio held ...`, `ratio waited ...`: the shares of a core's time for which it holds that lock, and for which it waits
for it;
`ratio lock_bound ...`: what not to wait can bring two cores at most, by these (`lock_bound`);
`ratio corec_over_{locked,trylock} ...`: two cores each;
`ratio corec_over_{locked,trylock}_of_bar ...`: that over the bar: OVER_LOCK, or the bound where that is less;
`ratio two_processes ...`: a ceiling, over one core: two processes with nothing in common;
`ratio corec_of_two_processes ...`: two cores with rx=corec over that;
`ratio two_queues_of_alone ...`: two cores with a queue and flows of their own each, over what each of them does while
the other does nothing: no frame crosses here. The NIC hashes every frame, and so it does in what follows;
`ratio spread_of_two_queues ...`: the same where each of the two that play the NIC sends to both queues in turn, so that
NIC and descriptors, buffers and mbufs cross as often as at one queue for both;
`ratio corec_of_spread ...`: two cores with rx=corec over that second ceiling;
`ratio explained_of_spread ...`: the share of it that the lines of the claim leave (`explained`);
`ratio corec_of_explained ...`: rx=corec over that, the bar on dear ground.
Ends with 1 when one of WANTED is missed on its ground, or when the machine was so busy that rounds are missing.
"""

import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ratio import print_ratio
from wire_bench import Done, Undisturbed, WireBench, two_cpus

from pollscope.base.errors import HostError, PollscopeError

ROUNDS = 9
CHEAP_NS = 150.0
APART = 1.8
BURST = 32  # apps/bench/wire_bench.h
CLAIM_LINES = 2  # that a poll of corec_protocol.h owns and another had: `taken`, and the doorbell with `tail`
OVER_LOCK = 1.2
HOST_STATES = ("cheap", "dear")
WORKLOADS = ("l3fwd", "ipsec")
LOCKS = ("locked", "trylock")
SHARED = ("corec", *LOCKS)
WANTED = {
    **{f"{host_state}_{workload}_corec_one_core": 0.95 for host_state in HOST_STATES for workload in WORKLOADS},
    "cheap_l3fwd_corec_two_cores": 1.5,
    "cheap_ipsec_corec_two_cores": 1.6,
    # Less a twentieth: shares and lines are timed once a round, and move by a tenth between rounds.
    **{f"{host_state}_l3fwd_corec_over_locked_of_bar": 0.95 for host_state in HOST_STATES},
    **{f"{host_state}_ipsec_corec_over_trylock_of_bar": 0.95 for host_state in HOST_STATES},
    **{f"dear_{workload}_corec_of_explained": 0.95 for workload in WORKLOADS},
}


def rate(done: list[Done]) -> float:
    """Of all workers together, in packets a second."""
    return sum(each.per_cpu_s for each in done)


def share(done: list[Done]) -> float:
    """Of a core's time, where workers count nanoseconds: of both in the mean."""
    return rate(done) / 1e9 / len(done)


def lock_bound(held: float, waited: float) -> float:
    """How much more two cores do that never wait for each other than two that have one lock, all else alike.

    With a lock held for a share u of what a core does but for waiting, the other is there when it comes with
    probability u, and has all of its stay left in the mean if stays differ as exponential ones do: periods grow by
    u * u (mean value analysis of two customers, Reiser and Lavenberg 1980). Stays that are all alike cost less, nothing
    below u = 1/2 and 2 * u - 1 beyond: the two fall into step.
    """
    return 1 + (held / (1 - waited)) ** 2


def together(first: WireBench, second: WireBench, loop: str) -> list[Done]:
    """Both processes at once."""
    for each in (first, second):
        each.start(loop, "0")
    return first.finish() + second.finish()


def explained(ceiling_pps: float, round_trip_ns: float) -> float:
    """What two cores reach that do as much a frame as below the ceiling, and fetch a claim's lines for each burst.

    Each line is fetched and then owned, as by either side of the round trip. A mark of READ_DONE is none of them: it is
    only written where one batch overtakes another, and its line is otherwise only read.
    """
    frame_ns = 2e9 / ceiling_pps
    return 2e9 / (frame_ns + CLAIM_LINES * round_trip_ns / 2 / BURST)


class Rounds:
    """One process with both CPUs, and one for each CPU."""

    def __init__(self, stack: ExitStack, log: Path) -> None:
        cpus = two_cpus()
        self._undisturbed = Undisturbed()
        self._pair = stack.enter_context(WireBench("both", cpus, log))
        self._first, self._second = (stack.enter_context(WireBench(f"cpu{cpu}", [cpu], log)) for cpu in cpus)

    def pps(self, loop: str, workers: str = "01") -> float:
        """Of one process."""
        return rate(self._undisturbed(partial(self._pair.run, loop, workers)))

    def round_trip_ns(self) -> float:
        """Of a cache line between the CPUs."""
        return 1e9 / self._undisturbed(partial(self._pair.run, "line", "01"))[0].per_cpu_s

    def apart(self, loop: str) -> float:
        """Of two processes at once."""
        return rate(self._undisturbed(partial(together, self._first, self._second, loop)))

    def rates(self, workload: str) -> dict[str, float]:
        """Packets a second by loop and cores; what others are weighed against comes before and after them."""
        standard = f"standard-{workload}"
        found = {"corec 1": self.pps(f"corec-{workload}", "0")}
        before, ceiling = self.pps(standard, "0"), self.apart(standard)
        for loop in (*SHARED, "rss", "spread", "hashed"):
            found[f"{loop} 2"] = self.pps(f"{loop}-{workload}")
        found["rss alone"] = sum(self.pps(f"rss-{workload}", worker) for worker in "01")
        found["processes 2"] = (ceiling + self.apart(standard)) / 2
        found["standard 1"] = (before + self.pps(standard, "0")) / 2
        return found

    def share(self, loop: str) -> float:
        """Of a core's time."""
        return share(self._undisturbed(partial(self._pair.run, loop, "01")))


def ratios_of(pps: Mapping[str, float], held: float, waited: float, round_trip_ns: float) -> dict[str, float]:
    """Of one round, by name."""
    one, corec, processes = pps["standard 1"], pps["corec 2"], pps["processes 2"]
    left = explained(pps["spread 2"], round_trip_ns)
    bound = lock_bound(held, waited)
    bar = min(OVER_LOCK, bound)
    return {
        "corec_one_core": pps["corec 1"] / one,
        **{f"{loop}_two_cores": pps[f"{loop} 2"] / one for loop in SHARED},
        "held": held,
        "waited": waited,
        "lock_bound": bound,
        **{f"corec_over_{lock}": corec / pps[f"{lock} 2"] for lock in LOCKS},
        **{f"corec_over_{lock}_of_bar": corec / pps[f"{lock} 2"] / bar for lock in LOCKS},
        "two_processes": processes / one,
        "corec_of_two_processes": corec / processes,
        "two_queues_of_alone": pps["rss 2"] / pps["rss alone"],
        "spread_of_two_queues": pps["spread 2"] / pps["rss 2"],
        "corec_of_spread": pps["hashed 2"] / pps["spread 2"],
        "explained_of_spread": left / pps["spread 2"],
        "corec_of_explained": pps["hashed 2"] / left,
    }


def host_state_line(trips_ns: list[float]) -> str:
    """Of all round trips of a line that were measured."""
    span = f"{statistics.median(trips_ns):.0f} ns ({min(trips_ns):.0f} to {max(trips_ns):.0f})"
    return f"ground: a line goes to and fro in {span}"


def host_state_of(trips_ns: tuple[float, float], two_processes: float) -> str:
    """By the line before and after what was measured."""
    if (trips_ns[0] <= CHEAP_NS) != (trips_ns[1] <= CHEAP_NS):
        return "changing"
    return "cheap" if trips_ns[0] <= CHEAP_NS and two_processes >= APART else "dear"


def measure(log: Path) -> Iterator[tuple[str, str, dict[str, float], tuple[float, float]]]:
    """Of each round and workload: the ground, the workload, its ratios, and the round trips before and after in ns."""
    with ExitStack() as stack:
        rounds = Rounds(stack, log)
        for _ in range(ROUNDS):
            for workload in WORKLOADS:
                before_ns = rounds.round_trip_ns()
                pps = rounds.rates(workload)
                held, waited = (rounds.share(f"{loop}-{workload}") for loop in ("held", "waited"))
                trips_ns = before_ns, rounds.round_trip_ns()
                found = ratios_of(pps, held, waited, sum(trips_ns) / 2)
                host_state = host_state_of(trips_ns, found["two_processes"])
                told = ", ".join(f"{name} {value / 1e6:.2f}" for name, value in pps.items())
                told += f" Mpps; line {trips_ns[0]:.0f} and {trips_ns[1]:.0f} ns, {host_state} ground"
                print(f"{workload}: {told}", file=sys.stderr)
                yield host_state, workload, found, trips_ns


def main() -> int:
    ratios: dict[str, list[float]] = defaultdict(list)
    trips_ns: list[float] = []
    whole = True
    with tempfile.TemporaryDirectory() as folder:
        try:
            for host_state, workload, found, both_ns in measure(Path(folder) / "stderr.log"):
                trips_ns.extend(both_ns)
                for name, value in found.items():
                    ratios[f"{host_state}_{workload}_{name}"].append(value)
        except HostError as error:
            if not ratios:
                raise
            whole = False
            print(f"corec: the last rounds are missing: {error}", file=sys.stderr)
    print(host_state_line(trips_ns))
    medians = {name: print_ratio(name, ratios[name]).value for name in sorted(ratios)}
    return 0 if whole and all(medians.get(name, least) >= least for name, least in WANTED.items()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PollscopeError as error:
        sys.exit(f"corec: {error}")
