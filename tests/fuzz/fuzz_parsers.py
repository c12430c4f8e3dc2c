# SPDX-License-Identifier: BSD-3-Clause
"""Mutates outputs of tools and feeds them to their parsers.

    python tests/fuzz/fuzz_parsers.py [PARSER...] --seconds N

A finding is a crash (anything but ParseError), a hang (one text takes longer than 2 s), an absence without a reason, or
an invented value: an integer in a reading whose digits stand nowhere in the text. Prints a line per parser; ends with 1
and the text in a file when there is a finding.
"""

import argparse
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from collector_samples import FIXTURES, OWN, PARSERS, read_text  # (path set above)

from pollscope.collectors.parsing import ParseError
from pollscope.collectors.sample import tidy

HANG_S = 2
LARGEST_BYTES = 6000
FOLDERS = {
    "ddio-bench": "ddio",
    "dpdk-telemetry": "dpdk-telemetry",
    "ethtool": "ethtool",
    "ethtool-settings": "ethtool",
    "iommu": "iommu",
    "lscpu": "cpu",
    "pcm": "pcm-core",
    "pcm-iio": "pcm-iio",
    "pcm-memory": "pcm-memory",
    "pcm-pcie": "pcm-pcie",
    "pcm-power": "pcm-power",
    "pcm-sensor-server": "pcm-sensor-server",
    "perf": "perf-stat",
    "perf-iostat": "perf-iostat",
    "sysfs": "cpu",
    "turbostat": "turbostat",
}
LABELS = {"kernel-load": "stat"}
# These parsers give numbers as they stand in the text (but for K, M, G), so an integer must be found there.
EXACT = {"dpdk-telemetry", "ethtool", "kernel-load", "lscpu", "pcm-iio", "pcm-pcie", "pcm-sensor-server"}
SUMS = "nic."  # normalised names may be sums of counters
SPICE = (
    "",
    ",",
    ";",
    "\n",
    "\r",
    "\t",
    "|",
    "-1",
    "nan",
    "N/A",
    "18446744073709551615",
    "1e999",
    "{",
    "}",
    '"',
    "(Total)",
    "\x1b[2J",
    "\0",
    "é",
    "999999999999999999999999",
    "<not counted>",
    " K",
    "%",
    "::",
    "1_0",
    "0x1f",
)


class Hang(Exception):
    """One text took too long."""


def seeds(parser: str) -> list[str]:
    """Outputs to start from: the shared ones and the small ones of this repository."""
    paths = (
        [
            *sorted((FIXTURES / FOLDERS[parser]).rglob("*")),
        ]
        if parser in FOLDERS and FIXTURES.is_dir()
        else []
    )
    paths += sorted(OWN.glob(f"{parser}.*"))
    texts = [
        path.read_text(encoding="utf-8", errors="replace")[:LARGEST_BYTES]
        for path in paths
        if path.is_file() and not path.name.endswith(("source.txt", "SOURCE.txt", "README.md"))
    ]
    return [text for text in texts if text] or ["1,2,3\n"]


def mutate(source: random.Random, text: str) -> str:
    """A few random edits: characters and cells replaced, lines doubled, dropped, swapped, the end cut off."""
    for _ in range(source.randint(1, 6)):
        place, length = source.randrange(len(text) + 1), source.randint(0, 8)
        what = source.randrange(6)
        lines = text.splitlines(keepends=True)
        if what == 0:
            text = text[:place] + source.choice(SPICE) + text[place + length :]
        elif what == 1:
            text = text[:place] + chr(source.randrange(1, 0x250)) + text[place + 1 :]
        elif what == 2 and lines:
            lines.insert(source.randrange(len(lines)), source.choice(lines))
            text = "".join(lines)
        elif what == 3 and len(lines) > 1:
            del lines[source.randrange(len(lines))]
            text = "".join(lines)
        elif what == 4:
            text = text[:place]
        else:
            text = re.sub(r"\d+", lambda m: str(source.randrange(10 ** len(m[0]))), text, count=source.randint(1, 5))
    return text


def check(parser: str, text: str) -> str:
    """What is wrong with how the parser takes the text; "" when nothing is."""
    try:
        readings = read_text(parser, text, LABELS.get(parser, ""))
    except ParseError:
        return ""
    digits = set(re.findall(r"\d+", text)) if parser in EXACT else set()
    for sample in tidy(parser, readings):
        if (sample.value is None) != bool(sample.reason):
            return f"absence and reason do not fit: {sample}"
        if (
            parser in EXACT
            and isinstance(sample.value, int)
            and not sample.metric.startswith(SUMS)
            and not _printed(sample.value, digits)
        ):
            return f"a value that the text does not hold: {sample}"
    return ""


def _printed(value: int, digits: set[str]) -> bool:
    """Whether the text holds the digits, alone or before a K, M, G or T, or inside the digits of a decimal number."""
    factors = [1000**power for power in range(5) if abs(value) % 1000**power == 0]
    padded = {int(text) for text in digits if text[0] == "0" and len(text) < 30}
    return any(str(abs(value) // factor) in digits or abs(value) // factor in padded for factor in factors)


def fuzz(parser: str, seconds: float, seed: int) -> Iterator[tuple[str, str]]:
    """Texts with findings; a number of rounds is printed at the end."""
    source, texts, rounds = random.Random(seed), seeds(parser), 0
    over = time.monotonic() + seconds
    while time.monotonic() < over:
        text, rounds = mutate(source, source.choice(texts)), rounds + 1
        signal.setitimer(signal.ITIMER_REAL, HANG_S)
        try:
            finding = check(parser, text)
        except Hang:
            finding = f"longer than {HANG_S} s"
        except Exception as error:  # any exception but ParseError is what is looked for
            finding = f"{type(error).__name__}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if finding:
            yield finding, text
    print(f"{parser}: {rounds} texts in {seconds:g} s")


def _too_long(_number: int, _frame: FrameType | None) -> None:
    raise Hang


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("parsers", nargs="*", default=sorted(PARSERS), metavar="PARSER")
    arguments.add_argument("--seconds", type=float, default=5.0, help="for each parser")
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    given = arguments.parse_args()
    signal.signal(signal.SIGALRM, _too_long)
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
