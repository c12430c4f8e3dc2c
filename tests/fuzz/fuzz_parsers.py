# SPDX-License-Identifier: BSD-3-Clause
"""Mutate outputs of tools (mutations.py) and feed them to their parsers.

    python tests/fuzz/fuzz_parsers.py [PARSER...] --seconds N

N are seconds of the fuzzing process's CPU time for each parser, whatever else runs on the machine.

A finding is a crash (anything but ParseError), a hang (one text costs more than 2 s of CPU time), an absence without
a reason, or an invented value: a number in a reading that stands nowhere in the text, in no unit. Prints a line per
parser, with how many of the texts it took (the rest it refused); ends with 1 and the text in a file when there is a
finding.
"""

import argparse
import math
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from collector_samples import FIXTURES, FOLDERS, LABELS, OWN, PARSERS, read_text  # (path set above)
from mutations import mutate

from pollscope.collectors.parsing import ParseError
from pollscope.collectors.sample import SourceSample, tidy

HANG_S = 2
SMALL_BYTES, LARGEST_BYTES = 6000, 40_000
LARGE_SHARE = 0.03
# Kin collectors have one parser; it goes by the first one's name.
DISTINCT = sorted({parse: name for name, parse in reversed(PARSERS.items())}.values())
# Factors from printed units to base units: us, ms, ns, %, KiB, MiB, GiB, K, M, G, T (before a unit of 10^6 or 10^9),
# Gbit/s.
SCALES = (1, 1e-3, 1e-6, 1e-9, 0.01, 2**10, 2**20, 2**30, 1e3, 1e6, 1e9, 1e12, 1e15, 1e18, 1e21, 1e9 / 8)
# Metrics that are made from several printed numbers, and parsers whose numbers are bit fields or counts of lines.
DERIVED = re.compile(r"nic\..*|busy_share|iommu_units|limited_by_.*")
UNPRINTED = {"pcie", "kernel-log", "qemu-vtd"}
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_DIGITS = re.compile(r"\d+", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{1,16}", re.ASCII | re.IGNORECASE)


class Hang(Exception):
    """One text took too long."""


def seeds(parser: str) -> list[str]:
    """Return outputs to start from: the shared ones and the small ones of this repository."""
    shared = sorted((FIXTURES / FOLDERS[parser]).rglob("*")) if parser in FOLDERS and FIXTURES.is_dir() else []
    paths = [*shared, *sorted(OWN.glob(f"{parser}.*"))]
    texts = [
        path.read_text(encoding="utf-8", errors="replace")[:LARGEST_BYTES]
        for path in paths
        if path.is_file() and not path.name.endswith(("source.txt", "SOURCE.txt", "README.md"))
    ]
    return [text for text in texts if text] or ["1,2,3\n"]


def check(parser: str, text: str, label: str) -> str:
    """Return what is wrong with how the parser takes the text; "" if nothing is.

    Raises:
        ParseError: it refused the text.
    """
    printed: set[str] | None = None
    known: set[float] = set()
    for sample in tidy(parser, read_text(parser, text, label)):
        if (sample.value is None) != bool(sample.reason):
            return f"absence and reason do not fit: {sample}"
        if _is_number(sample) and sample.value not in known and parser not in UNPRINTED:
            printed = _printed_numbers(text) if printed is None else printed
            known.add(float(sample.value or 0))
            if not _is_printed(float(sample.value or 0), printed):
                return f"a value that the text does not hold: {sample}"
    return ""


def _is_number(sample: SourceSample) -> bool:
    return isinstance(sample.value, (int, float)) and not DERIVED.fullmatch(sample.metric)


def _key(number: float) -> str:
    return f"{number:.9g}"


def _printed_numbers(text: str) -> set[str]:
    """Return every number in the text, decimal or hexadecimal, without its sign."""
    texts = [text, text.replace(",", "")]  # NEO-Host separates thousands
    decimal = {float(found) for one in texts for pattern in (_NUMBER, _DIGITS) for found in pattern.findall(one)}
    return {_key(number) for number in decimal} | {_key(float(int(found, 16))) for found in _HEX.findall(text)}


def _is_printed(value: float, printed: set[str]) -> bool:
    if 0 < abs(value) < sys.float_info.min:  # a subnormal number has lost digits
        return any(math.isclose(float(key) * scale, abs(value), rel_tol=0.01) for key in printed for scale in SCALES)
    # scaling rounds: a number just at the edge between two keys may fall to either side
    return math.isfinite(value) and any(
        _key(abs(value) / scale * nudge) in printed for scale in SCALES for nudge in (1, 1 + 1e-12, 1 - 1e-12)
    )


def fuzz(parser: str, seconds: float, seed: int) -> Iterator[tuple[str, str]]:
    """Yield findings and their texts."""
    texts, over = seeds(parser), time.process_time() + seconds
    source, count = random.Random(f"{seed} {parser}"), Counter[str]()
    while time.process_time() < over:
        size = LARGEST_BYTES if source.random() < LARGE_SHARE else SMALL_BYTES
        text = mutate(source, source.choice(texts)[:size], texts)
        finding = _finding(parser, text, source.choice(LABELS.get(parser, ("",))))
        count["texts"] += 1
        count["taken"] += finding is not None
        if finding:
            yield finding, text
    print(f"{parser}: {count['texts']} texts, {count['taken']} taken, {seconds:.0f} s of CPU time", flush=True)


def _finding(parser: str, text: str, label: str) -> str | None:
    """Return what is wrong; None if the parser refused the text."""
    signal.setitimer(signal.ITIMER_PROF, HANG_S)
    try:
        return check(parser, text, label)
    except ParseError:
        return None
    except Hang:
        return f"longer than {HANG_S} s"
    except Exception as error:  # any exception but ParseError is a finding
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_long(_number: int, _frame: FrameType | None) -> None:
    raise Hang


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("parsers", nargs="*", default=DISTINCT, metavar="PARSER")
    arguments.add_argument("--seconds", type=float, default=5.0, help="CPU time for each parser")
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    given = arguments.parse_args()
    signal.signal(signal.SIGPROF, _too_long)
    print(f"seed {given.seed}")
    for parser in given.parsers:
        for finding, text in fuzz(parser, given.seconds, given.seed):
            path = Path(f"finding-{parser}.txt")
            path.write_text(text, encoding="utf-8")
            print(f"{parser}: {finding} (text in {path})", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
