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


@pytest.mark.one_in(5)  # test_your_sweep_takes_another_run_and_question and others run more notebooks
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("polling_tax", ("tax_share_running", "S-F5.tax-at-full-load", "Testbed loopback", "<svg")),
        ("queue_scaling", ("poll_rate_running_hz", "S-F8.poll-rate-falls", "S-F10a.falls-from-64", "<svg")),
        ("littles_law", ("50.8", "96.3", "From the paper's table", "256 tags", "IOTLB look-ups", "walk_ns_needed")),
        (
            "your_sweep",
            (
                "name: s-f10a-single-flow",
                "limited by: sweep over the queues",
                "the fullest queue gives 100 %",
                "S-F10a.falls-from-64",
                "s-f8-poll-rate",
                "<svg",
            ),
        ),
        (
            "core_scaling",
            (
                "MODELLED S-F16: absent, because the table holds rates alone",
                "Universal Scalability Law",
                "peak_cores",
                "C-T2 same_numa: no law is fitted: 3 free points and 1 at the limit of 37 Mpps",
                "<svg",
            ),
        ),
    ],
)
def test_a_notebook_runs_on_what_is_recorded(name: str, wanted: tuple[str, ...]) -> None:
    shown = execute(FOLDER / f"{name}.ipynb")
    assert [word for word in wanted if word not in shown] == []


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
def test_your_sweep_takes_another_run_and_question() -> None:
    sql = "SELECT 40 + 2 AS answer FROM runs LIMIT 1"
    run = str(RUNS / "s-f5-polling-tax")
    shown = execute(FOLDER / "your_sweep.ipynb", run=run, x="load_of_max", metrics=["useful_share"], sql=sql)
    assert [word for word in ("name: s-f5", "limited by: offered load", "answer", "42") if word not in shown] == []
    assert "imissed_share" not in shown


def test_littles_law_takes_another_table() -> None:
    # 8 Gb/s in reads of 100 B are 10 M reads per second; at 1 us each, 10 are in progress.
    columns = [[1, 10e6, 8e9, 1000.0]]
    shown = execute(FOLDER / "littles_law.ipynb", columns=columns, request_bytes=100, tag_limit=32)
    assert "From the given columns." in shown
    assert "limit: 32 tags" in shown
    assert "31 % of the tags" in shown


@pytest.mark.thorough
def test_core_scaling_takes_a_table() -> None:
    # Amdahl's law with a serial share of 0.1 and 2 GHz; the whole loss comes from cycles per packet.
    rows = [[n, 10e6 * n / (1 + 0.1 * (n - 1)), 1.0, 200 * (1 + 0.1 * (n - 1)), 2e9] for n in (1, 2, 3, 4, 6, 8)]
    shown = execute(FOLDER / "core_scaling.ipynb", rows=rows)
    for word in ("cycles per useful packet", "Universal Scalability Law", "kappa may be 0", "0.588235"):
        assert word in shown


@pytest.mark.thorough
def test_scale_up_is_computed_by_the_model(tmp_path: Path) -> None:
    small: dict[str, Any] = {"workers": 2, "load_pps": [1e6, 3e6], "window": "3 ms"}
    shown = execute(FOLDER / "scale_up.ipynb", out=str(tmp_path / "runs"), **small)
    words = ("MODELLED", "S-F17a", "ratio_value", "cores 2, dispatchers 2", "a queue each", "<svg")
    assert [word for word in words if word not in shown] == []
    assert {path.name for path in (tmp_path / "runs" / "model-skylake").iterdir()} == {
        "s-f17a-latency-no-hiccup",
        "s-f17b-latency-hiccup",
    }


@pytest.mark.thorough
def test_corec_and_reordering_are_computed_by_models(tmp_path: Path) -> None:
    small: dict[str, Any] = {"loads": ["50 %"], "window": "3 ms", "cores": [1, 2], "flows": [1]}
    shown = execute(FOLDER / "corec_reordering.ipynb", out=str(tmp_path / "runs"), **small)
    words = ("MODELLED", "C-T2.", "C-F3.", "constant, up to 32", "0.25", "<svg")
    assert [word for word in words if word not in shown] == []


@pytest.mark.thorough
def test_hyperplane_is_computed_by_the_model(tmp_path: Path) -> None:
    small: dict[str, Any] = {"windows": {"H-F8": "3 ms"}, "queues": [1, 500], "statements": ["H-F8", "H-F13"]}
    shown = execute(FOLDER / "hyperplane.ipynb", out=str(tmp_path / "runs"), changed={"poll_ns": 130}, **small)
    words = ("MODELLED", "H-F8.", "agrees", "consistent by construction", "<svg")
    assert [word for word in words if word not in shown] == []
    assert "would_do" not in shown, "with polls of 130 ns the throughput comes out"


def test_ddio_and_iommu_say_what_is_missing() -> None:
    shown = execute(FOLDER / "ddio_iommu.ipynb", rings=[[2, 512, 64]], llc_bytes=11 * 40960)
    # 2 rings of 512 descriptors with a line and 16 B each are 81,920 B, as much as two of the ways.
    assert [
        word
        for word in ("No run is given", "19000000", "walk_ns_needed", "81920", "1.0", "hits_at_least", "0.406")
        if word not in shown
    ] == []


@pytest.mark.thorough
def test_ddio_and_iommu_compare_the_sides_of_a_knob(tmp_path: Path) -> None:
    trials = [
        synthetic.trial(f"{side}:{repeat}", side, repeat, {"knob.ddio": side}, pps=pps + repeat)
        for side, pps in (("on", 16e6), ("off", 8e6))
        for repeat in range(3)
    ]
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
