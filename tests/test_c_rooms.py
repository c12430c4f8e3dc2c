# SPDX-License-Identifier: BSD-3-Clause
"""Check that includes of apps/ run one way between files and rooms, and that shared functions are used elsewhere."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from shipped_specs import EXPERIMENTS, shipped

from pollscope.base.names import SHARED_QUEUES
from pollscope.spec.lcores import dispatchers
from pollscope.spec.model import Parameters
from pollscope.spec.points import all_points

APPS = Path(__file__).parents[1] / "apps"
NODE = APPS / "node"
# The folders that each folder may include besides itself; the order of the parts of node/ is in its meson.build.
FOLDERS = {
    "lib": set(),
    "qwait": set(),
    "pmd": {"qwait"},
    "node": {"lib", "pmd", "qwait", "gpu"},
    "corunner": {"lib"},
    "probe": {"lib"},
    "bench": {"lib", "node", "pmd"},
    "gpu": {"pmd"},  # the contract of the wire alone
    "tests": {"lib", "pmd", "node", "corunner", "qwait", "gpu"},
}
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# Workloads whose loops inline their process function; other loops call it.
OWN_LOOPS = {"l3fwd-lpm": "l3fwd_lpm", "tx": "tx"}
PREPROCESSOR = re.compile(r"^#(?:.*\\\n)*.*$", re.MULTILINE)


@cache
def text_of(path: Path) -> str:
    return COMMENT.sub(" ", path.read_text())


@cache
def words_of(path: Path) -> Counter[str]:
    return Counter(re.findall(r"\w+", text_of(path)))


@cache
def sources() -> list[Path]:
    return sorted(path for suffix in ("c", "h") for path in APPS.rglob(f"*.{suffix}"))


@cache
def generated() -> set[str]:
    """Return headers that the build writes; they include nothing."""
    scripts = [path.read_text() for path in APPS.rglob("meson.build")]
    return {name for text in scripts for name in re.findall(r"output: '(\w+\.h)'", text)}


def included(path: Path) -> Iterator[Path]:
    """Find headers as the compiler does: beside the file, then in the folders that meson.build names."""
    for name in INCLUDE.findall(text_of(path)):
        if name in generated():
            continue
        places = [path.parent, NODE, *(APPS / folder for folder in ("lib", "pmd", "corunner", "qwait", "gpu"))]
        found = next((folder / name for folder in places if (folder / name).is_file()), None)
        assert found is not None, f"{path}: {name} is not there"
        yield found


def rooms() -> list[str]:
    """Return the node's rooms, each of which may include earlier ones, and the program, which may include all."""
    return [*re.findall(r"^subdir\('(\w+)'\)$", (NODE / "meson.build").read_text(), re.MULTILINE), ""]


def room_of(path: Path) -> str:
    folder = path.relative_to(NODE).parent
    return "" if folder == Path() else folder.name


def test_no_file_includes_itself_by_a_detour() -> None:
    done: set[Path] = set()

    def busy_poll(path: Path, way: tuple[Path, ...]) -> None:
        assert path not in way, "a circle: " + " -> ".join(str(one.relative_to(APPS)) for one in (*way, path))
        if path not in done:
            for other in included(path):
                busy_poll(other, (*way, path))
            done.add(path)

    for path in sources():
        busy_poll(path, ())


def test_folders_include_only_what_they_may() -> None:
    for path in sources():
        folder = path.relative_to(APPS).parts[0]
        for other in included(path):
            target = other.relative_to(APPS).parts[0]
            assert target == folder or target in FOLDERS[folder], f"{path} includes {other}"


def test_rooms_of_the_node_include_only_those_before_them() -> None:
    order = rooms()
    assert sorted(order) == sorted({room_of(path) for path in sources() if NODE in path.parents})
    for path in sources():
        if NODE not in path.parents:
            continue
        for other in included(path):
            if NODE in other.parents:
                assert order.index(room_of(other)) <= order.index(room_of(path)), f"{path} includes {other}"


def declared(header: Path) -> set[str]:
    """Return functions that a header declares and does not define itself."""
    outside, depth = [], 0
    for char in PREPROCESSOR.sub("", text_of(header)):
        depth += (char == "{") - (char == "}")
        outside.append(";" if char == "}" and not depth else " " if depth else char)
    statements = (one.strip() for one in "".join(outside).split(";"))
    prototype = re.compile(r"(?!typedef|static|COREC_INLINE)[\w\s*]+?\b(\w+)\s*\((?!\*).*\)", re.DOTALL)
    return {found[1] for found in map(prototype.fullmatch, statements) if found}


def test_declared_functions_are_defined_beside_the_header_and_used_elsewhere() -> None:
    """The opposite is the compiler's business: -Wmissing-prototypes refuses functions that no header has."""
    headers = [path for path in sources() if path.suffix == ".h"]
    assert sum(len(declared(header)) for header in headers) > 300
    for header in headers:
        for name in declared(header):
            defines = re.compile(rf"^\w[\w *]*\b{name}\([^;{{]*\)\s*\{{", re.MULTILINE)
            known = [path for path in sources() if name in words_of(path)]
            definers = [path for path in known if path.suffix == ".c" and defines.search(text_of(path))]
            assert header.parent in {path.parent for path in definers}, f"{header}: {name} is defined in {definers}"
            users = [path for path in known if path not in definers]
            in_header = words_of(header)[name]
            assert users != [header] or in_header > 1, f"{name} is used in its own file only: make it static"


def loop_of(params: Parameters) -> str:
    """Return the name of the poll loop that a worker runs at a point."""
    more_work = params.lookups > 1 or params.checksum != "none"
    workload = "called" if more_work else OWN_LOOPS.get(params.workload, "called")
    organisation = params.organisation
    alone = {"spin": "_alone", "qwait": "_notified"}.get(params.notification, "_waiting")
    source = "_ring" if dispatchers(params) else f"_{organisation}" if organisation in SHARED_QUEUES else alone
    delays = params.extra_cycles or params.service_distribution != "fixed" or params.hiccup_probability
    return f"loops_{workload}{'' if workload == 'tx' else source}{'_delays' if delays else ''}_{params.accounting}"


def test_each_loop_of_the_experiments_is_compiled(build_dir: Path) -> None:
    specs = [shipped(path).spec for path in EXPERIMENTS]
    wanted = {loop_of(point.params) for spec in specs for point in all_points(spec)}
    assert {"loops_called_ring_delays_sampled", "loops_tx_count", "loops_called_alone_count"} <= wanted
    program = build_dir / "pollscope-node"
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.split()
    assert wanted <= set(symbols)
