#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure what cores gain by sharing one receive queue without a lock (docs/queue-sharing-and-notification.md).

The workloads l3fwd-lpm and ipsec of the node run on one core or two on what one RX queue of net_crossover delivers, by
each way to share it. The cores also play the NIC: a core that has received sends a burst of fresh frames to the queue,
in every loop alike, so two CPUs are enough. Loops alternate within a round. Rates are frames per second of CPU time. A
window in which other programs had more than a tenth of a core is repeated.

CPUs are `near` in rounds in which the round trip of a cache line between them takes at most NEAR_NS and two processes
do at least APART times what one does (two CPUs can be threads of one core). Otherwise they are `far`. A round that
begins in one state and ends in the other is `changing`. Figures of different states are never mixed: the goals of the
state with the most rounds are judged.

Prints, each with the 95 % interval of the median over N rounds, for WORKLOAD l3fwd and ipsec, the figures with a goal:
`ratio STATE_WORKLOAD_corec_one_core ...`: one core, rx=corec over rx=standard. Goal: at least 0.95;
`ratio near_WORKLOAD_corec_two_cores ...`: two cores over one with rx=standard. Goal: at least 1.5 (l3fwd), 1.6 (ipsec);
`ratio STATE_WORKLOAD_corec_over_{locked,trylock}_of_bar ...`: gain over a lock, as a share of OVER_LOCK or of the
bound, whichever is less. Goal: at least 0.95;
`ratio far_WORKLOAD_corec_of_explained ...`: rx=corec over what the cache lines of a reservation leave of two separate
queues. Goal: at least 0.95.

With --details also, for every state:
`{corec,locked,trylock}_two_cores`: two cores over one with rx=standard, by each way to share the queue;
`held`, `waited`: the shares of a core's time for which it holds the lock, and for which it waits for it;
`lock_bound`: the most that two cores gain by not waiting, from these shares (`lock_bound`);
`corec_over_{locked,trylock}`: two cores each;
`two_processes`, `corec_of_two_processes`: two processes with nothing in common over one core, and rx=corec over that
ceiling;
`two_queues_of_alone`: two cores with one queue and own flows each, over each of them alone: no frame crosses. From here
on the NIC hashes every frame;
`spread_of_two_queues`: the same while both senders send to both queues in turn, so that lines cross as often as at one
shared queue;
`corec_of_spread`: two cores with rx=corec over that second ceiling;
`explained_of_spread`: the share of it that the lines of a reservation leave (`explained`).
Ends with 1 when a goal is missed, or when the machine was so busy that rounds are missing.
"""

import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ratio import Goal, options, print_ratio, run_main
from wire_bench import Done, Undisturbed, WireBench, two_cpus

from pollscope.base.errors import HostError

ROUNDS = 9
NEAR_NS = 150.0
APART = 1.8
BURST = 32  # apps/bench/wire_bench.h
# Lines that a poll of corec_protocol.h takes from the other core: that of `taken`, and the doorbell with `tail`.
RESERVATION_LINES = 2
OVER_LOCK = 1.2
STATES = ("near", "far")
WORKLOADS = ("l3fwd", "ipsec")
LOCKS = ("locked", "trylock")
SHARED = ("corec", *LOCKS)
WANTED = {
    **{f"{state}_{workload}_corec_one_core": 0.95 for state in STATES for workload in WORKLOADS},
    "near_l3fwd_corec_two_cores": 1.5,
    "near_ipsec_corec_two_cores": 1.6,
    # 0.95 and not 1: shares and lines are timed once per round, and move by a tenth between rounds.
    **{f"{state}_l3fwd_corec_over_locked_of_bar": 0.95 for state in STATES},
    **{f"{state}_ipsec_corec_over_trylock_of_bar": 0.95 for state in STATES},
    **{f"far_{workload}_corec_of_explained": 0.95 for workload in WORKLOADS},
}


def rate(done: Sequence[Done]) -> float:
    """Return the packets per second of all workers together."""
    return sum(each.per_cpu_s for each in done)


def share(done: list[Done]) -> float:
    """Return the mean share of a core's time where workers count nanoseconds."""
    return rate(done) / 1e9 / len(done)


def lock_bound(held: float, waited: float) -> float:
    """Return how much more two cores do that never wait for each other than two that share one lock.

    Let a core hold the lock for a share u of its time without waiting. When it comes, the other core holds the lock
    with probability u, and for another whole section in the mean if sections are exponential. Periods then grow by
    u * u (mean value analysis of two customers, Reiser and Lavenberg 1980). Equal sections cost less: nothing up to
    u = 1/2 and 2 * u - 1 beyond, because the two cores fall into step.
    """
    return 1 + (held / (1 - waited)) ** 2


def together(first: WireBench, second: WireBench, loop: str) -> list[Done]:
    """Run one loop in both processes at once."""
    for each in (first, second):
        each.start(loop, "0")
    return first.finish() + second.finish()


def explained(ceiling_pps: float, round_trip_ns: float) -> float:
    """Return the rate of two cores that do the work of the ceiling and also move a reservation's lines for each burst.

    Each line is fetched and then owned, as on either side of the round trip. The completion flags do not count: they
    are written only when one batch overtakes another.
    """
    frame_ns = 2e9 / ceiling_pps
    return 2e9 / (frame_ns + RESERVATION_LINES * round_trip_ns / 2 / BURST)


class Rounds:
    """One process with both CPUs, and one per CPU."""

    def __init__(self, stack: ExitStack, log: Path) -> None:
        cpus = two_cpus()
        self._undisturbed = Undisturbed()
        self._pair = stack.enter_context(WireBench(cpus, log))
        self._first, self._second = (stack.enter_context(WireBench([cpu], log)) for cpu in cpus)

    def pps(self, loop: str, workers: str = "01") -> float:
        """Return the packets per second of the process that has both CPUs."""
        return rate(self._undisturbed(partial(self._pair.run, loop, workers)))

    def round_trip_ns(self) -> float:
        """Measure the round trip of a cache line between the CPUs."""
        return 1e9 / self._undisturbed(partial(self._pair.run, "line", "01"))[0].per_cpu_s

    def apart(self, loop: str) -> float:
        """Return the packets per second of two processes at once."""
        return rate(self._undisturbed(partial(together, self._first, self._second, loop)))

    def rates(self, workload: str) -> dict[str, float]:
        """Return packets per second by loop and cores; the reference loops run before and after the others."""
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
        """Return the share of a core's time that a loop of cycles reports."""
        return share(self._undisturbed(partial(self._pair.run, loop, "01")))


def ratios_of(pps: Mapping[str, float], held: float, waited: float, round_trip_ns: float) -> dict[str, float]:
    """Return the ratios of one round, by name."""
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


def round_trip_line(trips_ns: list[float]) -> str:
    """Describe all round trips that were measured."""
    span = f"{statistics.median(trips_ns):.0f} ns ({min(trips_ns):.0f} to {max(trips_ns):.0f})"
    return f"round trip of a cache line: {span}"


def state_of(trips_ns: tuple[float, float], two_processes: float) -> str:
    """Return the state of the CPUs by the round trips before and after the round."""
    if (trips_ns[0] <= NEAR_NS) != (trips_ns[1] <= NEAR_NS):
        return "changing"
    return "near" if trips_ns[0] <= NEAR_NS and two_processes >= APART else "far"


def measure(log: Path) -> Iterator[tuple[str, str, dict[str, float], tuple[float, float]]]:
    """Yield per round and workload: state, workload, ratios, and the round trips before and after in ns."""
    with ExitStack() as stack:
        rounds = Rounds(stack, log)
        for _ in range(ROUNDS):
            for workload in WORKLOADS:
                before_ns = rounds.round_trip_ns()
                pps = rounds.rates(workload)
                held, waited = (rounds.share(f"{loop}-{workload}") for loop in ("held", "waited"))
                trips_ns = before_ns, rounds.round_trip_ns()
                found = ratios_of(pps, held, waited, sum(trips_ns) / 2)
                state = state_of(trips_ns, found["two_processes"])
                summary = ", ".join(f"{name} {value / 1e6:.2f}" for name, value in pps.items())
                summary += f" Mpps; line {trips_ns[0]:.0f} and {trips_ns[1]:.0f} ns, {state} CPUs"
                print(f"{workload}: {summary}", file=sys.stderr)
                yield state, workload, found, trips_ns


def main() -> int:
    details = options(__doc__, details=True).parse_args().details
    ratios: dict[str, list[float]] = defaultdict(list)
    trips_ns: list[float] = []
    whole = True
    with tempfile.TemporaryDirectory() as folder:
        try:
            for state, workload, found, both_ns in measure(Path(folder) / "stderr.log"):
                trips_ns.extend(both_ns)
                for name, value in found.items():
                    ratios[f"{state}_{workload}_{name}"].append(value)
        except HostError as error:
            if not ratios:
                raise
            whole = False
            print(f"corec: the last rounds are missing: {error}", file=sys.stderr)
    print(round_trip_line(trips_ns), file=sys.stderr)
    usual = max(STATES, key=lambda state: len(ratios.get(f"{state}_l3fwd_held", ())))
    goals = {name: Goal(least) for name, least in WANTED.items() if name.startswith(usual) and name in ratios}
    medians = {name: print_ratio(name, ratios[name], goal).value for name, goal in goals.items()}
    for name in sorted(set(ratios) - set(goals)):
        if details:
            print_ratio(name, ratios[name])
    return 0 if whole and goals and all(goals[name].is_met(value) for name, value in medians.items()) else 1


if __name__ == "__main__":
    run_main(main)
