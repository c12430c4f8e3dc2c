# SPDX-License-Identifier: BSD-3-Clause
"""Test notebooks: thin, parameterised, without outputs in git, and executed from files on the disk."""

import io
import json
import re
import shutil
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import synthetic_run as synthetic

from pollscope.metrics.dictionary import metric_dictionary

CHECKOUT = Path(__file__).resolve().parent.parent

FOLDER = CHECKOUT / "notebooks"
RUNS = CHECKOUT / "data" / "runs"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
OUT = object()  # a folder of the test
# Warnings of the libraries that start a kernel; none concerns a notebook's results.
pytestmark = pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning")


def read(path: Path) -> Any:
    import nbformat  # this and the imports below take a second, and every worker collects this file

    book = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # nbformat's
    nbformat.validate(book)
    return book


def execute(path: Path, /, **parameters: Any) -> str:
    """Run a notebook's cells in this process, which saves a kernel and its imports; all that they show, as text."""
    from IPython.core.displayhook import CapturingDisplayHook
    from IPython.core.displaypub import CapturingDisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.clear_instance()
    shell: Any = InteractiveShell.instance()  # which IPython's display() asks for
    shown: list[Any] = []
    publisher: Any = CapturingDisplayPublisher
    hook: Any = CapturingDisplayHook
    shell.display_pub, shell.display_trap.hook = publisher(shell=shell, outputs=shown), hook(shell, shown)
    printed = io.StringIO()
    with chdir(FOLDER), redirect_stdout(printed):
        for cell in read(path).cells:
            if cell.cell_type == "code":
                shell.run_cell(cell.source).raise_error()
            if "parameters" in cell.metadata.get("tags", []):
                shell.push(parameters)
    return json.dumps([output["data"] for output in shown] + [printed.getvalue()], ensure_ascii=False)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_thin_and_has_no_outputs(path: Path) -> None:
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in cells) == 1
    source = "\n".join(cell.source for cell in cells)
    metrics = re.findall(r'"([^"]+)"', " ".join(re.findall(r"^metrics = (.*)$", source, re.MULTILINE)))
    assert set(metrics) <= set(metric_dictionary().metrics)
    assert "def " not in source, "functions belong into modules"
    assert "class " not in source
    assert len(source.splitlines()) < 40


# Name, parameters, what it shows and what not. The made table of one row has 8 Gb/s in reads of 100 B, which are 10 M
# reads per second; at 1 us each, 10 are in progress. The made table of cores is Amdahl's law with a serial share of
# 0.1; the whole loss comes from cycles per packet. Two rings of 512 descriptors with a line and 16 B each are 81,920 B,
# as much as two of the ways.
AMDAHL = [[n, 10e6 * n / (1 + 0.1 * (n - 1)), 1.0, 200 * (1 + 0.1 * (n - 1)), 2e9] for n in (1, 2, 3, 4, 6, 8)]
QUICK = [
    ("polling_tax", {}, "tax_share_running | S-F5.tax-at-full-load | Testbed loopback | <svg", ""),
    (
        "littles_law",
        {"columns": [[1, 10e6, 8e9, 1000.0]], "request_bytes": 100, "tag_limit": 32},
        "From the given columns. | limit: 32 tags | 31 % of the tags",
        "",
    ),
    (
        "ddio_iommu",
        {"rings": [[2, 512, 64]], "llc_bytes": 11 * 40960},
        "No run is given | 19000000 | walk_ns_needed | 81920 | 1.0 | hits_at_least | 0.406",
        "",
    ),
]
SLOW: list[tuple[str, dict[str, Any], str, str]] = [
    ("queue_scaling", {}, "poll_rate_running_hz | S-F8.poll-rate-falls | S-F10a.falls-from-64 | <svg", ""),
    ("littles_law", {}, "50.8 | 96.3 | From the paper's table | 256 tags | IOTLB look-ups | walk_ns_needed", ""),
    (
        "your_sweep",
        {},
        "name: s-f10a-single-flow | limited by: sweep over the queues | the fullest queue gives 100 % | "
        "S-F10a.falls-from-64 | s-f8-poll-rate | <svg",
        "",
    ),
    (
        "your_sweep",
        {
            "run": str(RUNS / "s-f5-polling-tax"),
            "x": "load_of_max",
            "metrics": ["useful_share"],
            "sql": "SELECT 40 + 2 AS answer FROM runs LIMIT 1",
        },
        "name: s-f5 | limited by: offered load | answer | 42",
        "imissed_share",
    ),
    (
        "core_scaling",
        {},
        "MODELLED S-F16: absent, because the table holds rates alone | Universal Scalability Law | peak_cores | "
        "C-T2 same_numa: no law is fitted: 3 free points and 1 at the limit of 37 Mpps | <svg",
        "",
    ),
    (
        "core_scaling",
        {"rows": AMDAHL},
        "cycles per useful packet | Universal Scalability Law | kappa may be 0 | 0.588235",
        "",
    ),
    (
        "scale_up",
        {"out": OUT, "workers": 2, "load_pps": [1e6, 3e6], "window": "3 ms"},
        "MODELLED | S-F17a | ratio_value | cores 2, dispatchers 2 | a queue each | <svg",
        "",
    ),
    (
        "corec_reordering",
        {"out": OUT, "loads": ["50 %"], "window": "3 ms", "cores": [1, 2], "flows": [1]},
        "MODELLED | C-T2. | C-F3. | constant, up to 32 | 0.25 | <svg",
        "",
    ),
    (
        "hyperplane",
        {
            "out": OUT,
            "windows": {"H-F8": "3 ms"},
            "queues": [1, 500],
            "statements": ["H-F8", "H-F13"],
            "changed": {"poll_ns": 130},
        },
        "MODELLED | H-F8. | agrees | consistent by construction | <svg",
        "would_do",  # with polls of 130 ns the throughput comes out
    ),
]


@pytest.mark.parametrize(
    ("name", "parameters", "wanted", "unwanted"),
    [*QUICK, *(pytest.param(*each, marks=pytest.mark.thorough) for each in SLOW)],
)
def test_a_notebook_shows(name: str, parameters: dict[str, Any], wanted: str, unwanted: str, tmp_path: Path) -> None:
    given = {key: str(tmp_path / "runs") if value is OUT else value for key, value in parameters.items()}
    shown = execute(FOLDER / f"{name}.ipynb", **given)
    assert [word for word in wanted.split(" | ") if word not in shown] == []
    assert not unwanted or unwanted not in shown
    if name == "scale_up":
        made = {path.name for path in (tmp_path / "runs" / "model-skylake").iterdir()}
        assert made == {"s-f17a-latency-no-hiccup", "s-f17b-latency-hiccup"}


@pytest.mark.thorough
def test_papermill_gives_a_notebook_another_run(tmp_path: Path) -> None:
    import papermill

    other = tmp_path / "other"
    shutil.copytree(RUNS / "s-f5-polling-tax", other)
    meta = json.loads((other / "run.json").read_text(encoding="utf-8"))
    (other / "run.json").write_text(json.dumps(meta | {"run_id": "20260101T000000Z-0ther0"}), encoding="utf-8")
    book = papermill.execute_notebook(
        str(FOLDER / "polling_tax.ipynb"),
        str(tmp_path / "executed.ipynb"),
        parameters={"run": str(other), "metrics": ["rx_pps"]},
        cwd=str(FOLDER),
        progress_bar=False,
        log_output=False,
    )
    shown = json.dumps([cell.outputs for cell in book.cells if cell.cell_type == "code"])
    assert "20260101T000000Z-0ther0" in shown
    assert "useful_share" not in shown


@pytest.mark.thorough
def test_ddio_and_iommu_compare_the_sides_of_a_knob(tmp_path: Path) -> None:
    sides = (("on", 16e6), ("off", 8e6))
    trials = [trial for side, pps in sides for trial in synthetic.repeated({"knob.ddio": side}, 3, pps, 1e-6)]
    run = synthetic.write_run(tmp_path / "run", trials, row="I-F7", rows=["I-F7"], run_id="of-two-sides")
    shown = execute(FOLDER / "ddio_iommu.ipynb", runs=[str(run)])
    assert [word for word in ("of-two-sides: ddio", "I-F7.", "rx_pps", "0.5", "<svg") if word not in shown] == []
    assert "No run is given" not in shown


@pytest.mark.parametrize("folder", sorted(file.parent for file in RUNS.glob("*/run.json")), ids=lambda path: path.name)
def test_a_recorded_run_is_small_and_whole(folder: Path) -> None:
    meta = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert meta["status"] == "complete"
    trials = (folder / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["trial"] for line in trials} == set(meta["plan"])
    assert sum((folder / name).stat().st_size for name in ("run.json", "trials.jsonl")) < 1_200_000
    assert folder.name in (RUNS / "README.md").read_text(encoding="utf-8")
