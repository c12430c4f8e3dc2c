# SPDX-License-Identifier: BSD-3-Clause
"""Run the command line: one module per command, imported only when that command is used.

A command module holds one function that is named like the command or, with subcommands, `app: typer.Typer`. The lines
at the end of its help are its `EXAMPLES`, or those of configs/examples.toml. A command raises `PollscopeError`; `main`
turns it into one line on standard error and an exit code. A command that ends with another code than 0 raises
`typer.Exit(code)`.
"""

import sys

try:  # on a busy host these imports take a second
    import errno
    import gc
    import importlib
    import math
    import os
    import signal
    import time
    import tomllib
    from collections.abc import Sequence
    from types import FrameType
    from typing import Annotated

    import typer

    from pollscope import __version__
    from pollscope.base.errors import ExitCode, PollscopeError, reason_of
    from pollscope.base.paths import data_folder
    from pollscope.base.printable import printable_output
except KeyboardInterrupt:
    sys.stderr.write("pollscope: interrupted\n")
    raise SystemExit(130) from None

# Name -> one line of `pollscope --help`, in the order of a study. The module is pollscope.cli.NAME.
COMMANDS = {
    "doctor": "Show what this host can measure, what not, and why.",
    "new": "Write a commented spec to start from.",
    "validate": "Check specs; nothing is run.",
    "schema": "Print the JSON Schema of a spec.",
    "plan": "Show trials, expected time, and points left out and why.",
    "run": "Measure a spec into a run folder.",
    "report": "Write one self-contained HTML page about runs.",
    "figures": "Draw the papers' figures from run folders.",
    "gallery": "Draw every row of the papers on one HTML page.",
    "claims": "Give a verdict per claim, with the numbers behind it.",
    "explain": "Name what limits the DUT at each point, with the evidence.",
    "compare": "Compare two runs, or the levels of a factor.",
    "history": "Find where a metric changed over the runs of a spec.",
    "query": "Query all runs of a results folder by SQL.",
    "calibrate": "Take costs for the testbed model from measured runs.",
    "trace": "Make a packet trace (pcap) of stated statistics.",
    "attach": "Measure a running DPDK program.",
    "probe": "Put the probe plug-in where EAL finds it, or remove it.",
    "collect": "Read counters of this host for some seconds.",
    "knob": "List, read, set and restore host state.",
    "testbed": "Bring a testbed up or down, or see its state.",
    "build": "Compile pollscope-node here or on a testbed's hosts.",
    "pack": "Put pollscope, or run folders, into one file for another host.",
    "play": "Prepare, change or restore hosts over SSH.",
    "agent": "Serve a runner on another host, which starts it over SSH.",
}

# A shell sets this variable to ask for completions (pollscope --show-completion).
_COMPLETING = "_POLLSCOPE_COMPLETE"

# New objects between two garbage collections. Records and tables are many objects that stay. With Python's default of
# 700, collections took a quarter of the time of a report.
GARBAGE_EVERY = 10_000

# Signals within this time of each other count as one interrupt.
_ONE_INTERRUPT_S = 0.5

# Errors of a full, read-only or broken disk.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)

EXAMPLES = """Examples:

  pollscope doctor                      what can be measured here
  pollscope run S-F5 --quick            a row of a paper, shortened
  pollscope report results/*/*          one page from all runs

Exit codes: 0 done; 1 ran, but trials failed; 2 bad usage or bad spec; 3 this host or testbed cannot do it;
4 a gate's intervals were too wide to decide; 130 interrupted."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and end the process with its exit code (see pollscope.base.errors)."""
    gc.set_threshold(GARBAGE_EVERY)
    interrupt = _Interrupt()
    signal.signal(signal.SIGTERM, interrupt)
    for number in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores it, and so does a shell for `&`
            signal.signal(number, interrupt)
    with printable_output():
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
    # Python removes its handler before it ends. Ctrl-C would then kill a finished command without an exit code.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    try:
        result = build_app(_wanted(_words_so_far() if _COMPLETING in os.environ else arguments))(
            arguments, prog_name="pollscope", standalone_mode=False
        )
    except PollscopeError as error:
        return _fail(str(error), error.exit_code)
    except typer.TyperException as error:
        return _fail(_in_words(error, arguments), ExitCode.USAGE)
    except OSError as error:  # a full disk or a removed folder, not a defect of the program
        kept = " (nothing that was on the disk is lost)" if error.errno in _DISK_ERRORS else ""
        return _fail(f"{reason_of(error)}{kept}", ExitCode.HOST)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", ExitCode.INTERRUPTED)
    except Exception as error:
        if "KeyboardInterrupt" in str(error):  # pydantic turned it into a SchemaError while it built a model
            return _fail("interrupted", ExitCode.INTERRUPTED)
        raise
    if result == ExitCode.INTERRUPTED:
        return _fail("interrupted", ExitCode.INTERRUPTED)
    return result if isinstance(result, int) else ExitCode.DONE


def _in_words(error: typer.TyperException, arguments: Sequence[str]) -> str:
    """Return what is wrong with a command line, and where to look."""
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    if message.endswith("?") or "(Possible options:" in message:  # typer's message names close matches
        return message
    known = [word for word in arguments[:1] if word in COMMANDS]
    return f"{message} ({' '.join(['pollscope', *known])} --help)"


def _words_so_far() -> list[str]:
    """Return the words of the line that a shell wants to complete; each shell has its own variable for them."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return line.split()[1:]


def build_app(wanted: str | None) -> typer.Typer:
    """Build the command tree; import only the module of the wanted command (all, if `wanted` is "*")."""
    app = typer.Typer(
        name="pollscope",
        help="Measure what happens inside a host that moves packets.",
        epilog=EXAMPLES,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        no_args_is_help=False,
    )
    app.callback(invoke_without_command=True)(_root)
    for name, summary in COMMANDS.items():
        if wanted in (name, "*"):
            _add(app, name, summary)
        else:
            app.command(name, help=summary)(_not_loaded)
    return app


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"pollscope {__version__}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _add(app: typer.Typer, name: str, summary: str) -> None:
    module = importlib.import_module(f"pollscope.cli.{name}")
    lines = getattr(module, "EXAMPLES", None) or _examples()[name]
    examples = "Examples:\n\n\b\n" + "\n".join(f"  {line}" for line in lines)
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name, help=summary, epilog=examples)
    else:
        app.command(name, short_help=summary, epilog=examples)(getattr(module, name))


def _examples() -> dict[str, list[str]]:
    return tomllib.loads((data_folder("configs") / "examples.toml").read_text(encoding="utf-8"))


def _not_loaded() -> None:
    raise AssertionError("BUG: a command was run whose module was not imported")


def _wanted(arguments: list[str]) -> str | None:
    return next((word for word in arguments if not word.startswith("-")), None)


def _fail(message: str, code: int) -> int:
    # Scripts that read standard error rely on one line per error.
    line = " ".join(f"pollscope: {message}".split())
    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    typer.echo(typer.style(line, fg="red") if colour else line, err=True)
    return code


class _Interrupt:
    """Treat a signal as Ctrl-C; ignore further signals that follow at once.

    They would interrupt the command while it restores settings. A login that ends sends TERM and HUP together, and a
    key held down repeats 30 times per second.
    """

    def __init__(self) -> None:
        self._raised_s = -math.inf

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if now_s - self._raised_s >= _ONE_INTERRUPT_S:
            self._raised_s = now_s
            raise KeyboardInterrupt
