# SPDX-License-Identifier: BSD-3-Clause
"""Report words and sentences in git's files that the house does not write; `make lint` runs this.

    python tests/words.py [--count] [PATH...]

PATH is a file or a folder; the default is all files of the checkout. Each finding is one line: file, line, rule,
passage and remedy. `--count` prints how often each rule is broken, and in which folders, and ends with 0. A passage
that is right as it stands is listed in words_exceptions.txt, beside this file.
"""

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

# One per line: a glob of paths, a colon and a blank, and a part of the line that is right as it stands.
EXCEPTIONS = Path(__file__).with_name("words_exceptions.txt")
# Recorded data, output of other programs, pictures, licences, and this check.
SKIPPED = (
    "LICENSE",
    "*.lock",
    "*.svg",
    "*.png",
    "*.csv",
    "*.jsonl",
    "data/runs/*",
    "tests/collectors/*.txt",
    "tests/words*",
    "tests/test_words.py",
)
# A blank of a pattern also matches a line break and the comment sign that begins the next line.
_BLANK = r"(?:[ \t]+|[ \t]*\n[ \t]*(?:(?:#|//|\*|>)[ \t]*)?)"
# "who" is a relative pronoun only behind a person, and a question word only before a question mark.
_PERSON = re.compile(
    r"(?:person|people|those|ones?|others?|(?:any|every|some|no)(?:body|one)|colleagues?|students?|users?|readers?|authors?"
    r"|admin(?:istrator)?s?|engineers?|reviewers?|operators?|maintainers?|attackers?|researchers?)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Rule:
    """A pattern that is not written, and what is written in its place.

    Attributes:
        name: short, for `--count`.
        pattern: a regular expression; case does not matter, a blank matches a line break too.
        instead: what to write.
        paths: globs of files to which the rule is limited; none: all files.
        but_not: globs of files to which it does not apply.
    """

    name: str
    pattern: str
    instead: str
    paths: tuple[str, ...] = ()
    but_not: tuple[str, ...] = ()

    def spans(self, text: str) -> Iterator[re.Match[str]]:
        """Yield what the pattern matches."""
        yield from re.finditer(self.pattern.replace(" ", _BLANK), text, re.IGNORECASE | re.MULTILINE)


_PAPERS = ("data/*", "docs/*", "experiments/*", "README.md")
_PER = "bytes|cycles|packets|frames|polls|samples|times|queues|trials|lines|ns|us|[kMG]iB|[kMG]pps|MHz"
_OVER = "second|minute|hour|core|lcore|queue|packet|frame|poll|point|run|trial|block|burst|line|cycle|row|series|window"
# "Packets a core takes" has a clause behind it, not a rate.
_VERB = "that|which|only|looks|takes?|sends?|polls?|has|is|does|could|makes?|reads?|of (?:its|their)|forwards?|QWAIT"
RULES = (
    Rule("anew", r"\banew\b", "again"),
    Rule("in vain", r"\bin vain\b", "without success"),
    Rule("for want of", r"\bfor want of\b", "because there is no"),
    Rule("to and fro", r"\bto and fro\b", "back and forth"),
    Rule("a for per", rf"\b(?:{_PER}) an? (?:{_OVER})\b(?! (?:{_VERB})\b)", "per: packets per second"),
    Rule(
        "comment: What", r"^[\x20\t]*(?:#|//|/\*|\*)[\x20\t]*(?-i:What|Whether)\b(?![^\n]*\?)", "a noun as the subject"
    ),
    Rule("canary", r"canar(?:y|ies)", "host-state check"),
    Rule("ground", r"(?<![a-z])grounds?(?![a-z]|\x20truth)", "host state"),
    Rule("dear", r"\bdear(?:er|est|ly)?\b", "far (CPUs), expensive"),
    Rule("cheap ground", r"\bcheap(?:er)? (?:ground|cpus?)\b", "near CPUs"),
    Rule("told", r"\btold\b", "notified (a core), reported (a value)"),
    Rule("visit", r"(?<![a-z])visit(?:s|ed)?(?![a-z]|(?-i:_[A-Z]))", "busy poll"),
    Rule("slice", r"\b(?:timed|empty|quiet) slices?\b|\bslices of polls\b|slice_of_polls", "timed interval"),
    Rule("lap", r"\blap(?:s|ped)?\b", "wrap"),
    Rule("supply", r"(?<!power[_\x20])\b(?:rx_)?suppl(?:y|ies)\b", "buffer pool; provide"),
    Rule("lease", r"(?<!dhcp\x20)\blease[sd]?\b|leased_lines", "heartbeat timeout", but_not=("playbooks/*",)),
    Rule("facts", r"(?<!ansible\x20)\bfacts\b|(?:host|run)_?facts", "metadata", but_not=("playbooks/*", "tests/vm/*")),
    Rule("trouble", r"\btrouble\b", "kernel log; problem"),
    Rule("go on", r"\bgo_on\b", "resume"),
    Rule("same place", r"\bsame_place\b", "trace identity"),
    Rule("of before", r"\bof before\b|\w+_of_before\b", "legacy, and then deleted"),
    Rule("the text", r"\bthe text(?:'s)?\b(?! of)", "the paper", paths=_PAPERS),
    Rule("emulated NIC", r"\bemulated NICs?\b", "virtual NIC"),
)
WHO = Rule("headless who", "", "a noun before it: a core that ..., a user who ...")
DOCSTRING = Rule("docstring: What", "", "a verb first: Return, Read, Check, Write")


@dataclass(frozen=True)
class Found:
    """A passage that breaks a rule."""

    path: str
    line: int
    rule: Rule
    passage: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule.name}: '{self.passage}' (write {self.rule.instead})"


def findings(path: str, text: str) -> Iterator[Found]:
    """Yield what breaks a rule in a file, without regard to exceptions."""
    lines = text.split("\n")

    def found(rule: Rule, start: int) -> Found:
        line = text.count("\n", 0, start)
        return Found(path, line + 1, rule, lines[line].strip())

    for rule in RULES:
        if (not rule.paths or _is_one(path, rule.paths)) and not _is_one(path, rule.but_not):
            yield from (found(rule, span.start()) for span in rule.spans(text))
    yield from (found(WHO, start) for start in _headless(text))
    if path.endswith(".py"):
        yield from (Found(path, line, DOCSTRING, lines[line - 1].strip()) for line in _docstrings(text))


def _headless(text: str) -> Iterator[int]:
    """Yield where a "who" stands that has no person before it and asks nothing."""
    for who in re.finditer(r"(?<![`\w./-])who(?![`\w/:=,)\]-]|\s=)", text, re.IGNORECASE):
        before = re.findall(r"[A-Za-z]+", text[max(0, who.start() - 60) : who.start()])
        sentence = re.split(r"[.!:;](?:\s|$)|\n\s*\n", text[who.end() : who.end() + 300], maxsplit=1)[0]
        if (not before or not _PERSON.fullmatch(before[-1])) and "?" not in sentence:
            yield who.start()


def _docstrings(text: str) -> Iterator[int]:
    """Yield the lines of docstrings that begin with a question word."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            re.match(r"(?:What|Who|Whether)\b", ast.get_docstring(node) or "")
        ):
            yield node.body[0].lineno


def _is_one(path: str, globs: Iterable[str]) -> bool:
    return any(fnmatch(path, each) for each in globs)


def exceptions() -> list[tuple[str, str]]:
    """Return glob and passage of each line of the file of exceptions."""
    lines = (line.strip() for line in EXCEPTIONS.read_text(encoding="utf-8").splitlines())
    parts = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return [(glob, passage) for glob, _, passage in parts]


def checked(root: Path, paths: Iterable[str]) -> tuple[list[Found], set[tuple[str, str]]]:
    """Return what breaks a rule below the paths, and the exceptions that were used."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths]
    names = subprocess.run(listed, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    excepted, used, wrong = exceptions(), set[tuple[str, str]](), []
    for name in sorted(set(filter(None, names))):
        path = root / name
        if _is_one(name, SKIPPED) or path.is_symlink() or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # no text
            continue
        for each in findings(name, text):
            reason = next((one for one in excepted if fnmatch(name, one[0]) and one[1] in each.passage), None)
            if reason is None:
                wrong.append(each)
            else:
                used.add(reason)
    return wrong, used


def counts(wrong: Iterable[Found]) -> Iterator[str]:
    """Yield a line per rule with its findings, and where they are."""
    by_rule: dict[str, Counter[str]] = {}
    for each in wrong:
        by_rule.setdefault(each.rule.name, Counter())[each.path.rpartition("/")[0] or "."] += 1
    for name, folders in sorted(by_rule.items(), key=lambda item: -item[1].total()):
        most = ", ".join(f"{folder} {count}" for folder, count in folders.most_common(4))
        yield f"{folders.total():6}  {name:18} {most}"
    yield f"{sum(folders.total() for folders in by_rule.values()):6}  in all"


def main() -> int:
    """Check the files that the arguments name; return the exit code."""
    parser = argparse.ArgumentParser(description="Report words that the house does not write.")
    parser.add_argument("paths", nargs="*", default=["."], metavar="PATH", help="file or folder; default: all")
    parser.add_argument("--count", action="store_true", help="how often each rule is broken, and no failure")
    asked = parser.parse_args()
    root = Path(
        subprocess.run(
            ["git", "rev-parse", "--show-toplevel"], check=True, capture_output=True, text=True
        ).stdout.strip()
    )
    here = Path.cwd().resolve()
    wrong, used = checked(root, [str((here / path).resolve().relative_to(root)) for path in asked.paths])
    whole = asked.paths == ["."] and here == root
    idle = sorted(set(exceptions()) - used) if whole else []
    if asked.count:
        print("\n".join(counts(wrong)))
        return 0
    for each in wrong:
        print(each)
    for glob, passage in idle:
        print(f"{EXCEPTIONS.name}: no finding matches '{glob}: {passage}' (delete the line)")
    return 1 if wrong or idle else 0


if __name__ == "__main__":
    sys.exit(main())
