# SPDX-License-Identifier: BSD-3-Clause
"""Attack the collector pcm-sensor-server, also in a root agent: its URL reads no file and reaches no other host."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pollscope.base.errors import UsageError
from pollscope.collectors.registry import create
from pollscope.run.agent import Agent


class Server(BaseHTTPRequestHandler):
    """A server on this host that also tries to lead its readers away."""

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self.send_response(200)
        else:
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
        self.end_headers()
        self.wfile.write(b"counters 1\n")

    def log_message(self, *_args: object) -> None:
        """Stay silent."""


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/shadow",
        "FILE:///etc/shadow",
        "file://localhost/etc/shadow",
        "ftp://localhost/x",
        "data:text/plain,x",
        "http://192.0.2.1/metrics",
        "http://localhost@192.0.2.1/",
        "http://user@localhost/",
        "http://localhost.example.com/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1/",
        "http:///x",
        "",
        7,
    ],
)
def test_an_agent_reads_only_servers_of_its_host(tmp_path: Path, url: str) -> None:
    with Agent(tmp_path) as agent:
        options = {"name": "pcm-sensor-server", "options": {"url": url}}
        for request in ({"cmd": "probe", **options}, {"cmd": "start", "interval_ns": 10**8, **options}):
            reply = agent.answer(request)
            assert "only http and https to this host are read" in reply["failed"]["what"], reply
    assert not list(tmp_path.rglob("*.raw"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2", "[::1]"])
def test_names_of_this_host_are_allowed(host: str) -> None:
    assert not create("pcm-sensor-server", url=f"http://{host}:1/metrics").probe().available


def test_a_redirect_is_not_followed(address: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x", encoding="utf-8")
    assert create("pcm-sensor-server", url=f"{address}/metrics").probe().available
    for target in (f"{address}/metrics", f"file://{secret}"):
        found = create("pcm-sensor-server", url=f"{address}/to/{target}").probe()
        assert (found.available, "302" in found.reason) == (False, True), found


def test_the_default_is_a_server_of_this_host() -> None:
    create("pcm-sensor-server")
    with pytest.raises(UsageError, match=r"url http://example\.com/: only http"):
        create("pcm-sensor-server", url="http://example.com/")


def test_an_agent_that_is_root_sets_no_knobs_in_a_tree_of_another_user(tmp_path: Path) -> None:
    """A link in the tree would lead its writes to any file."""
    tree = tmp_path / "tree"
    tree.mkdir()
    tree.chmod(0o777)
    with Agent(tmp_path) as agent:
        asked = {"what": "run x", "restore_first": False, "root": str(tree), "emulated": False}
        reply = agent.answer({"cmd": "knobs_open", **asked})
    assert "other users may write" in reply["failed"]["what"], reply


@pytest.mark.parametrize("event", ["./evil.c", "/tmp/evil.o", "evil.bpf.c:x"])
def test_perf_compiles_and_loads_no_program(event: str) -> None:
    with pytest.raises(UsageError, match="is not an event"):
        create("perf", events=["cycles", event])
