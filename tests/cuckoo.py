# SPDX-License-Identifier: BSD-3-Clause
"""Model HyperPlane's monitoring set: a cuckoo hash table (section IV-A; Pagh and Rodler 2001, ZCache 2010).

A doorbell may lie in one row of each way. Adding one moves others on, breadth first, until one finds an empty row; when
none does within a number of rows that were looked at, adding fails, and the driver tries another address.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pollscope.models.compiled import compiled
from pollscope.stats.estimates import Estimate, mean_estimate

EMPTY = -1


@dataclass(frozen=True)
class Filled:
    """Tables that were filled, each with doorbells of its own.

    Attributes:
        failed_share: of all first tries of an address, those that failed.
        tries: addresses tried for a doorbell, on average.
        unplaced: tables in which some doorbell found no place at all.
    """

    failed_share: Estimate
    tries: Estimate
    unplaced: int


@compiled
def _add(
    table: NDArray[np.int64], rows: NDArray[np.int64], key: int, seen: NDArray[np.int64], before: NDArray[np.int64]
) -> bool:
    """Add a key and return whether it found a place. `seen` and `before` are working memory."""
    ways, found = table.shape[0], 0
    for way in range(ways):
        seen[found], before[found] = way * table.shape[1] + rows[key, way], -1
        found += 1
    looked = 0
    while looked < found:
        way, row = seen[looked] // table.shape[1], seen[looked] % table.shape[1]
        held = table[way, row]
        if held == EMPTY:
            place = looked
            while before[place] >= 0:
                source = before[place]
                table[seen[place] // table.shape[1], seen[place] % table.shape[1]] = table[
                    seen[source] // table.shape[1], seen[source] % table.shape[1]
                ]
                place = source
            table[seen[place] // table.shape[1], seen[place] % table.shape[1]] = key
            return True
        for other in range(ways):
            if other != way and found < seen.size:
                seen[found], before[found] = other * table.shape[1] + rows[held, other], looked
                found += 1
        looked += 1
    return False


def fill(entries: int, ways: int, doorbells: int, rows_seen: int = 64, tables: int = 50, seed: int = 1) -> Filled:
    """Fill tables of so many entries with so many doorbells.

    Args:
        entries: of a table, a multiple of ways.
        ways: of a table.
        doorbells: added one after the other, each at up to 100 addresses.
        rows_seen: rows that adding looks at most.
        tables: how many.
        seed: the same gives the same numbers.
    """
    randoms = [np.random.Generator(np.random.PCG64(each)) for each in np.random.SeedSequence(seed).spawn(tables)]
    failed, tries, unplaced = [], [], 0
    for random in randoms:
        table = np.full((ways, entries // ways), EMPTY, np.int64)
        seen, before = np.zeros(rows_seen, np.int64), np.zeros(rows_seen, np.int64)
        rows = random.integers(0, entries // ways, (doorbells, ways))
        first = tried = 0
        lost = False
        for key in range(doorbells):
            for again in range(100):
                tried += 1
                if _add(table, rows, key, seen, before):
                    break
                first += again == 0
                rows[key] = random.integers(0, entries // ways, ways)
            else:
                lost = True
        failed.append(first / doorbells)
        tries.append(tried / doorbells)
        unplaced += lost
    return Filled(mean_estimate(failed), mean_estimate(tries), unplaced)
