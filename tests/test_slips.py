# SPDX-License-Identifier: BSD-3-Clause
"""Test sixty slips of a user, and the one line that each gets: what, where, what to do.

What needs a host to go wrong is elsewhere: a full disk (test_disk_full), Ctrl-C at any moment (test_run_faults), two
runs at once (test_two_at_once), huge pages that are not there (test_setup_hugepages).
"""

import shlex
import shutil
from pathlib import Path

import pytest
from command_line import pollscope

RECORDED = Path(__file__).parents[1] / "data" / "runs" / "s-f5-polling-tax"
OWN = "format: 1\nname: own\ntitle: t\nparameters: {load_pps: 2 Mpps}\nfactors: {burst: [1, 2]}\n"
MANY = "'{from: 1, to: 512, step: 1}'"
CLAIM = "claims: [{id: a, statement: s, metric: rx_pps, predicate: {kind: within, low: 1}}]\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a spec, a run, and runs that are damaged or of another version."""
    place = tmp_path_factory.mktemp("slips")
    (place / "own.yaml").write_text(OWN)
    run = place / "results" / "s-f5-polling-tax" / "one"
    for target in (run, place / "future", place / "cut", place / "torn"):
        shutil.copytree(RECORDED, target)
    metadata = (run / "run.json").read_text()
    (place / "future" / "run.json").write_text(metadata.replace('"format": 1', '"format": 99', 1))
    (place / "cut" / "run.json").write_text(metadata[:500])
    trials = (run / "trials.jsonl").read_text().splitlines(keepends=True)
    (place / "torn" / "trials.jsonl").write_text(trials[0][:100] + "\n" + "".join(trials[1:]))
    (place / "empty").mkdir()
    shutil.copytree(RECORDED.with_name("s-f8-poll-rate"), place / "other-run")
    (place / "dangling.yaml").symlink_to("nowhere")
    (place / "pages.txt").write_text("- one\n")
    return place


def one_line(folder: Path, command: list[str], code: int, words: str) -> None:
    done = pollscope(*command, cwd=folder)
    assert done.returncode == code, done.stderr
    errors = [line for line in done.stderr.splitlines() if not line.startswith("latest: results/")]  # the folder used
    assert len(errors) == 1, "one line"
    assert errors[0].startswith("pollscope: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr and "pydantic" not in done.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("rnu S-F5", "No such command 'rnu'. Did you mean 'run'?"),
        ("run", "give specs to run, or --resume RUN (pollscope run --help)"),
        ("run S-F5 --resume latest", "--resume: a run is resumed without specs"),
        ("run --resume nothing", "nothing: there is no such run (give the folder"),
        ("run --resume future", "future/run.json: has format 99; this pollscope reads format 1 (read it with"),
        ("run own.yml", "own.yml: there is no such spec (did you mean own.yaml?)"),
        ("run bursts.yaml", "bursts.yaml: there is no such spec (`pollscope new bursts` writes one)"),
        ("run S-F55", "is neither a file, a folder, nor a row or name of a spec (did you mean S-F5"),
        ("run latest", "latest: is a run, not a spec (`pollscope run --resume latest` continues it)"),
        ("run dangling.yaml", "is a link to what is not there (it leads to nowhere)"),
        ("run OWN", "is neither a file, a folder, nor a row or name of a spec (did you mean own.yaml?)"),
        ("run own.yaml --testbed pair.example", "(it names loopback; add the kind, or use such a testbed)"),
        ("run own.yaml --testbed own.yaml", "own.yaml: is not a testbed file: it has no 'kind' (allowed: loopback"),
        ("run own.yaml --out", "Option '--out' requires an argument (pollscope run --help)"),
        ("new Bursts", "'Bursts': is not a spec name (lower case, digits and dashes"),
        ("new own", "own.yaml: is already there"),
        ("new a b", "Got unexpected extra argument(s) (b)"),
        ("new other --like pages.txt", "pages.txt:1: a spec is a mapping of keys to values"),
        ("schema x", "Got unexpected extra argument(s) (x) (pollscope schema --help)"),
        ("validate", "Missing argument 'SPEC...' (pollscope validate --help)"),
        ("validate empty", "empty: the folder holds no spec (*.yaml) (`pollscope new NAME` writes one)"),
        ("plan S-F5 --quik", "No such option: --quik (Possible options: --quick)"),
        ("plan S-F5 --testbed loopbak", "loopbak: there is no such testbed (known: loopback"),
        (
            "plan S-F5 --set queues=3",
            "queues: is not a key by itself; parameters.queues fixes it, factors.queues sweeps it",
        ),
        ("plan S-F5 --set factors.queues", "is not KEY=VALUE (for instance --set trial.window='200 ms')"),
        ("plan S-F5 --set factors.queues=[1,", "the value is not valid YAML"),
        ("plan S-F5 --set factors.queues=abc", "factors.queues: the levels are a list [1, 2, 4] or a range"),
        ("plan S-F5 --set factors.queues=[4096]", "factors.queues.0: must be at most 1024, not 4096"),
        ("plan own.yaml --set parameters.load_pps=1e99", "must be at most 1000000000000, not 1e+99"),
        ("plan own.yaml --set trial.window=9999999s", "trial.window: must be at most 86,400 s, not '9999999s'"),
        ("plan own.yaml --set trial.window=0ms", "trial.window: must be at least 1 ms, not '0ms'"),
        (
            f"plan own.yaml --set factors.burst={MANY} --set factors.queues={MANY}",
            "262,144 points, each 5 times, are too many for one run (at most 1,000,000 trials)",
        ),
        ("plan S-F5 --set parameters.frame=64", "parameters.frame: '64' has no unit; allowed: B"),
        ("report latst", "latst: there is no such run (did you mean latest?"),
        ("report empty", "empty: holds no run folder (measure with `pollscope run`)"),
        ("report cut", "cut/run.json: is not JSON"),
        ("report torn", "torn/trials.jsonl: line 1: is not JSON, so the run folder is damaged"),
        ("report results/s-f5-polling-tax/one/run.json", "is a file of a run folder, not the folder (give results/"),
        ("report latest --out x.docx", "the report is one HTML page (name a file that ends in .html"),
        ("figures latest --x queue", "the run has no factor 'queue' (its factors: queues, lookups, load_of_max)"),
        ("figures latest --y tax", "no metric is called 'tax' (did you mean tax_share or"),
        ("figures latest --y nope", "no metric is called 'nope' (docs/reference-metrics.md has all)"),
        ("figures latest --y rx_pps,rx_pps", "--y: 'rx_pps' is listed twice"),
        ("figures latest --at queues=1 --at queues=8", "holds a factor at two levels (once for each factor)"),
        ("figures latest --x queues --by queues", "--by: 'queues' lies along x already"),
        (
            "figures latest --at queues=1 --at lookups=1 --at load_of_max=0.5",
            "--at holds every factor that was swept (choose with --x",
        ),
        ("figures latest --at queues=9", "queues has no level '9' (its levels: 1, 8)"),
        ("figures latest --at queues", "--at queues: is not FACTOR=LEVEL"),
        ("figures latest --x load_of_max --y rx_pps --ratio-to 99", "no point is at '99'"),
        ("figures latest --log z", "--log"),
        ("figures latest --paper socc20", "there is no paper 'socc20' (one of: corec"),
        ("figures latest --out x.gif", "figures are not written as GIF (one of: svg, pdf, png)"),
        ("figures latest --width colum", "'colum' is not one of 'column', 'page' (pollscope figures --help)"),
        ("claims results/S-F8", "results/S-F8: there is no such run"),
        ("compare latest future", "future/run.json: has format 99"),
        (
            "compare latest other-run",
            "no point with a common metric: A swept queues, lookups, load_of_max, B queues, rx_desc",
        ),
        ("query 'SELECT metric.rx_pps FROM trials'", "names with a dot need double quotes"),
        ("compare latest", "give two run folders, or one run folder with --by FACTOR"),
        ("compare latest latest", "is both sides (give two runs, or --by FACTOR to compare levels inside one)"),
        ("compare latest --by queue", "the run has no factor 'queue' (its factors: queues, lookups, load_of_max)"),
        ("compare latest --by queues --fail-if rx_pps", "is not a condition (METRIC < NUMBER %"),
        ("knob get gouvernor", "there is no knob 'gouvernor' (did you mean governor? knobs: ddio"),
        ("knob set governor", "Missing argument 'VALUE' (pollscope knob --help)"),
        ("collect perff", "no collector 'perff' (did you mean perf? one of:"),
        ("collect kernel-load --seconds five", "Invalid value for '--seconds'"),
        ("collect kernel-load --seconds 1 --out x", "unknown ending '' (use one of .csv, .jsonl, .parquet)"),
        ("testbed upp loopback", "No such command 'upp'"),
        ("doctor --jason", "No such option: --jason (Possible options: --json)"),
    ],
)
def test_a_slip_on_the_command_line(folder: Path, command: str, words: str) -> None:
    one_line(folder, shlex.split(command), 2, words)


def test_an_answer_that_cannot_be_written(folder: Path) -> None:
    words = "/proc/a.csv: cannot be written: No such file or directory (choose another file with --out)"
    one_line(folder, ["query", "SELECT 1", "--out", "/proc/a.csv"], 3, words)


def test_file_encodings_are_read_or_refused(folder: Path) -> None:
    for name, content in (("crlf", OWN.replace("\n", "\r\n").encode()), ("mark", b"\xef\xbb\xbf" + OWN.encode())):
        (folder / f"{name}.yaml").write_bytes(content)
        assert pollscope("validate", f"{name}.yaml", cwd=folder).returncode == 0
    (folder / "wide.txt").write_bytes(OWN.encode("utf-16"))
    one_line(folder, ["validate", "wide.txt"], 2, "cannot be read: not UTF-8 text (save it as UTF-8)")


def test_an_empty_word_is_no_folder(folder: Path) -> None:
    """An unset shell variable gives an empty word; nothing here is run."""
    one_line(folder, ["run", ""], 2, "'': is not a spec (give a file")
    one_line(folder, ["report", ""], 2, "'': is not a run (give the folder")


def test_a_spec_without_points_is_refused(folder: Path) -> None:
    one_line(folder, ["plan", "own.yaml", "--set", "factors.cores=[64]"], 3, "no point is left: 64 polling lcores need")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OWN.replace("format: 1", "format: 2"), "yaml:1: format: 2 is not allowed; allowed: 1"),
        (OWN.replace("name: own", "name: My Spec"), "yaml:2: name: 'My Spec' is not a name of lower case"),
        (OWN.replace("title: t", "title:"), "yaml:3: title: no value is given; write one"),
        (OWN.replace(" {load_pps: 2 Mpps}", ""), "yaml:4: parameters: no value is given"),
        (OWN.replace("2 Mpps", "2 Mbps"), "'Mbps' is not a unit of a packet rate; allowed: pps, kpps, Mpps"),
        (OWN.replace("factors", "factor"), "yaml:5: factor: unknown key; did you mean 'factors'?"),
        (OWN.replace("burst", "brust"), "yaml:5: factors.brust: unknown key; did you mean 'burst'?"),
        (OWN.replace("[1, 2]", "[]"), "factors.burst: a factor needs at least one level"),
        (OWN.replace("[1, 2]", "[1, 1]"), "factors.burst: the level 1 is listed twice"),
        (OWN.replace("[1, 2]", "[0]"), "factors.burst.0: must be at least 1, not 0"),
        (OWN.replace("factors", "\tfactors"), "a line is indented with a tab; use spaces"),
        (OWN + "factors: {queues: [1]}\n", "yaml:6: not valid YAML: the key 'factors' is listed twice"),
        (OWN + "row: s-f5\n", "yaml:6: row: 's-f5' is not a row as S-F5 or H-F3a"),
        (OWN + "paper: socc\n", "paper: 'socc' is not allowed; did you mean 'socc19'?"),
        (OWN + "trial: {window: 1}\n", "trial.window: '1' has no unit; allowed: ns, us, ms, s, min"),
        (OWN + "trial: {window: 1 s, warm_up: 1 s}\n", "trial.warm_up: unknown key; did you mean 'warmup'?"),
        (OWN + "repeats: 0\n", "repeats: 0 is not a mapping of keys to values"),
        (OWN + "testbeds: [loop]\n", "testbeds.0: 'loop' is not allowed; did you mean 'loopback'?"),
        (OWN + "collectors: [perff]\n", "there is no collector 'perff'; did you mean 'perf'?"),
        (OWN + "knobs: {govenor: performance}\n", "knobs.govenor: there is no knob 'govenor' (did you mean governor?"),
        (OWN + "show: [{x: burst}]\n", "yaml:6: show.0: the key 'y' is missing"),
        (OWN + "zip: [[burst, queues]]\n", "zip.0: 'queues' is not a factor of this spec; allowed: burst"),
        (OWN + CLAIM.replace("rx_pps", "rx_ps"), "claims.0.metric: 'rx_ps' is not a metric; did you mean rx_pps"),
        (OWN + CLAIM.replace("within", "rises"), "there is no kind 'rises'; did you mean 'rise_share'?"),
        (OWN + "knobs: {", "yaml:6: not valid YAML: the file ends before a bracket or a quotation mark is closed"),
        (OWN + "---\n" + OWN, "yaml:6: not valid YAML: a second document begins here (---); one file holds one spec"),
        ("", "yaml:1: a spec is a mapping of keys to values (see docs/reference-spec.md)"),
    ],
)
def test_a_slip_in_a_spec(folder: Path, text: str, words: str) -> None:
    (folder / "slip.yaml").write_text(text)
    one_line(folder, ["validate", "slip.yaml"], 2, words)
