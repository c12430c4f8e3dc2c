# SPDX-License-Identifier: BSD-3-Clause
"""`ethtool -S`, `-i`, `-g` and `-c`: a NIC's own counters and settings.

Every counter keeps the driver's name; queue counters go to the queue's unit path. Beside them the counters that
matter for the path NIC - PCIe - host get one name across drivers (`nic.*`, table below), so that plausibility rules
and figures need not know the driver.

outbound_pci_stalled_rd/_wr of mlx5 are gauges (percent of the last second); their *_events are counters of seconds.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from pollscope.collectors.counter_names import counter_names
from pollscope.collectors.parsing import WRAPPED_64, Origin, numbered, parse_cell, slug
from pollscope.collectors.sample import Kind, Reading, SourceMetric, Value, reading

_LINE = re.compile(r"\s*(\S.*?): (-?\d+)\s*", re.ASCII)
_TITLE = re.compile(r"NIC statistics:|Standard stats for \S+:")  # the second with --all-groups
_QUEUES = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        r"(?P<dir>rx|tx)-(?P<queue>\d+)[._-](?P<name>.+)",  # i40e, iavf, sfc, liquidio
        r"(?P<dir>rx|tx)_queue_(?P<queue>\d+)[._](?P<name>.+)",  # ice, ixgbe, igb, netvsc, veth, virtio before 6.x
        r"(?P<dir>rx|tx)(?P<queue>\d+)_(?P<name>.+)",  # mlx5, virtio since 6.x
        r"(?P<dir>rx|tx)q_?(?P<queue>\d+)(?:: |_)(?P<name>.+)",  # sfc, octeontx2, hns3, hinic, mvpp2
        r"(?:queue_|rvec_|q)(?P<queue>\d+)_(?P<dir>rx|tx)_(?P<name>.+)",  # ena, nfp, stmmac, macb
        r"(?P<dir>rx|tx)_q-(?P<queue>\d+)_(?P<name>.+)",  # idpf
        r"(?P<dir>rx|tx)_(?P<name>[^\[\]]+)\[(?P<queue>\d+)\]",  # gve
        r"\[(?P<queue>\d+)\]: (?P<dir>rx|tx)_(?P<name>.+)",  # bnxt, bnx2x
        r"(?P<queue>\d+): (?P<name>(?P<dir>rx|rcv|tx|xmit)_.+)",  # qede
        r"Queue\[(?P<queue>\d+)\] (?P<name>(?P<dir>In|Out)\w+)",  # atlantic
        r"(?P<dir>Rx|Tx) ring +(?P<queue>\d+) (?P<name>.+)",  # enetc
    )
)
# mana, ionic: `rx_7_bytes`. Other drivers have sizes of packets there (rx_64_bytes), which do not begin with 0.
_NUMBERED = re.compile(r"(rx|tx)_(\d+)_(.+)", re.ASCII)
# vmxnet3: a heading with the queue's number; what is indented below it belongs to the queue.
_HEADING = re.compile(r"(\s*)(Rx|Tx) Queue#: (\d+)\s*", re.ASCII)
_DIRECTIONS = {"rx": "rx", "rcv": "rx", "In": "rx", "Rx": "rx", "tx": "tx", "xmit": "tx", "Out": "tx", "Tx": "tx"}
# not rx_64_bytes_phy, tx_1024_to_max_octets, which count packets of that size
_BYTES = re.compile(r"(?:^|(?<!\d)(?<!max)[._ ])(?:bytes|octets|octetcount)(?:$|[._ ])|(?<!\d)Octets(?:Dma|\w+OK)?$")
_PERCENT = {"outbound_pci_stalled_rd", "outbound_pci_stalled_wr"}
_LEVELS = {"conntrack_allowance_available"}  # ena: connections that may still be opened

# normalised name -> names by driver, the first present wins. "port" counters come before "netdev" ones.
_NORMALISED = counter_names("ethtool")


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read one `ethtool -S` listing (with or without its first line); `origin.label` is the interface.

    Raises:
        ParseError: no counter in it (ethtool's own message is then the reason).
    """
    path = f"port:{origin.label}" if origin.label else "port"
    units: dict[str, list[tuple[SourceMetric, Value, str]]] = {path: []}
    names: dict[str, Value] = {}
    last, listing = "", _Listing()
    for number, text in numbered(lines, origin):
        match = _LINE.fullmatch(text)
        if match is None:
            if text.strip() and not _TITLE.fullmatch(text.strip()):
                last = text.strip()
                origin.leave_out(number, f"no counter: {last[:60]!r}")
            continue
        if match[1].endswith("Queue#"):
            listing.begin(text)
            continue
        where, metric = listing.place(text, match[1])
        value, reason = parse_cell(match[2], wrapped=WRAPPED_64)
        units.setdefault(f"{path}/{where}" if where else path, []).append((metric, value, reason))
        if not where:
            names[metric.name] = value
    if not any(units.values()):
        raise origin.refuse(1, f"no counter in it{': ' + last if last else ''}", "record with: ethtool -S INTERFACE")
    units[path].extend(_normalised(names))
    t_ns = origin.now()
    for unit, cells in units.items():
        yield reading(t_ns, unit, cells)


@dataclass
class _Listing:
    """Keep the context that earlier lines give to later names: the queue under whose heading they are indented, and the
    counters `rx_0_NAME`, after which `rx_7_NAME` is one of queue 7.
    """

    heading: str = ""
    indent: int = 0
    first_queues: set[str] = field(default_factory=set)

    def begin(self, text: str) -> None:
        """Return a heading."""
        match = _HEADING.fullmatch(text)
        self.heading = f"{_DIRECTIONS[match[2]]}_queue{match[3]}" if match else ""
        self.indent = len(match[1]) if match else 0

    def place(self, text: str, name: str) -> tuple[str, SourceMetric]:
        """Return the queue (empty: the port itself) and the counter's name there."""
        if self.heading:
            if len(text) - len(text.lstrip()) > self.indent:
                return self.heading, _metric(name)
            self.heading = ""
        where, metric = _place(name)
        match = _NUMBERED.fullmatch(name) if not where else None
        if match is None:
            return where, metric
        if match[2] == "0":
            self.first_queues.add(f"{match[1]}_{match[3]}")
        known = f"{match[1]}_{match[3]}" in self.first_queues
        return (f"{match[1]}_queue{match[2]}", _metric(match[3])) if known else (where, metric)


@lru_cache(maxsize=16384)
def _place(name: str) -> tuple[str, SourceMetric]:
    """Return the queue (empty: the port itself) and the counter's name there."""
    for pattern in _QUEUES:
        match = pattern.fullmatch(name)
        if match:
            direction = _DIRECTIONS[match["dir"]]
            return f"{direction}_queue{match['queue']}", _metric(match["name"].removeprefix(f"{direction}_"))
    return "", _metric(name)


def _metric(name: str) -> SourceMetric:
    if name in _PERCENT:
        return SourceMetric(name, "%", Kind.GAUGE)
    return SourceMetric(name, _unit(name), Kind.GAUGE if name in _LEVELS else Kind.COUNTER)


def _unit(name: str) -> str:
    return "B" if _BYTES.search(name) else "1"


def _normalised(names: dict[str, Value]) -> Iterator[tuple[SourceMetric, Value, str]]:
    for normal, candidates in _NORMALISED.items():
        for candidate in candidates:
            parts = [names.get(part) for part in candidate.split("+")]
            if all(isinstance(part, int) for part in parts):
                gauge = normal.endswith("percent")
                metric = SourceMetric(normal, "%" if gauge else _unit(normal), Kind.GAUGE if gauge else Kind.COUNTER)
                yield metric, sum(part for part in parts if isinstance(part, int)), ""
                break


def parse_settings(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read `ethtool -i`, `-g` or `-c`: names and states. `n/a` is an absence; sections of -g become prefixes.

    Raises:
        ParseError: no `name: value` line in it.
    """
    path = f"port:{origin.label}" if origin.label else "port"
    section, cells = "", list[tuple[SourceMetric, Value, str]]()
    for number, text in numbered(lines, origin):
        line = text.strip()
        title = re.fullmatch(r"(.*[a-z]|.* parameters for \S+):", line)
        if title and not line.startswith(("firmware", "expansion", "bus-info")):
            section = {"Pre-set maximums": "maximum_", "Current hardware settings": "current_"}.get(title[1], "")
            continue
        if line and ":" not in line:
            origin.leave_out(number, f"no setting: {line[:60]!r}")
        for name, value in _settings(line):
            absent = value in ("n/a", "")
            count = parse_cell(value)[0] if value.isdigit() else None
            metric = SourceMetric(section + slug(name), "1" if count is not None else "", Kind.STATE)
            cells.append(
                (metric, None if absent else value if count is None else count, "ethtool: n/a" if absent else "")
            )
    if not cells:
        raise origin.refuse(1, "no setting in it", "record with: ethtool -i INTERFACE")
    yield reading(origin.now(), path, cells)


def _settings(line: str) -> Iterator[tuple[str, str]]:
    """Yield name and value; `Adaptive RX: off  TX: n/a` holds two settings with one subject."""
    double = re.fullmatch(r"(.*) RX: (\S+)\s+TX: (\S+)", line)
    if double:
        yield f"{double[1]} RX", double[2]
        yield f"{double[1]} TX", double[3]
        return
    name, mark, value = line.partition(":")
    if mark:
        yield name.strip(), value.strip()
