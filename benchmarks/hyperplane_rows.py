#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Judge all rows of HyperPlane on the modelled chip: print a verdict per statement and the time it takes.

`--set NAME=VALUE` changes a parameter of configs/platforms/hyperplane-chip.yaml, `--chip FILE` takes another file.
`--needed` prints for each statement that does not hold, or not for certain, which parameter would have to differ.

Ends with `ratio hyperplane_rows_over_300_s VALUE VALUE VALUE 1`: CPU time on two CPUs over the 5 minutes allowed. Goal:
below 1 (without --needed). Ends with 1 when it is missed.
"""

import sys
import time
from pathlib import Path

from ratio import options

from pollscope.base.errors import UsageError
from pollscope.models.hyperplane import Chip, chip, statements

CPUS, ALLOWED_S = 2, 300.0


def asked_chip(file: Path | None, settings: list[str]) -> Chip:
    machine = chip(file)
    for setting in settings:
        name, equals, value = setting.partition("=")
        try:
            machine = machine.having(name, float(value if equals else "nan"))
        except ValueError:
            raise UsageError("write NAME=VALUE with a number", setting) from None
    return machine


def main() -> int:
    words = options(__doc__)
    words.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the chip")
    words.add_argument("--chip", type=Path, metavar="FILE", help="another file than the one that ships")
    words.add_argument("--needed", action="store_true", help="which parameter would have to differ, and to what")
    asked = words.parse_args()
    try:
        machine = asked_chip(asked.chip, asked.set)
    except UsageError as error:
        print(f"hyperplane_rows: {error}", file=sys.stderr)
        return 2
    began, began_cpu = time.perf_counter(), time.process_time()
    for statement in statements():
        found = statement.of(machine)
        verdict = statement.verdict(found)
        interval = f" ({found.low:.4g} to {found.high:.4g})" if found.low < found.high else ""
        print(f"{statement.row}: {verdict.upper()}: {statement.text}: {found.value:.4g}{interval}")
        if asked.needed and not statement.comes_out(found):
            value = statement.needed(machine)
            would = "no value from a tenth to ten times does" if value is None else f"{value:.3g} would do"
            print(
                f"    {statement.lever} is {machine[statement.lever]:.3g} ({machine.origins[statement.lever]}): {would}"
            )
    cpu_s = time.process_time() - began_cpu
    print(f"# {time.perf_counter() - began:.1f} s, {cpu_s:.1f} s of CPU time", file=sys.stderr)
    share = cpu_s / CPUS / ALLOWED_S
    print(f"ratio hyperplane_rows_over_300_s {share:.3f} {share:.3f} {share:.3f} 1")
    print("  goal: below 1", file=sys.stderr)
    return 0 if share < 1 or asked.needed else 1


if __name__ == "__main__":
    sys.exit(main())
