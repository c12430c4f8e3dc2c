# SPDX-License-Identifier: BSD-3-Clause
"""Make a folder like TRex's: a server that only runs, and a Python API that sends no packets.

As in TRex, `t-rex-64` is a shell script that starts `_t-rex-64` and waits for it. The pid of the latter is in `server`.
The API keeps a log of what it was asked; nine of ten packets come back. It has the names and arguments of TRex's public
documentation that the driver uses, and takes no others.
"""

from pathlib import Path

SERVER = """#!/bin/sh
readlink /proc/self/ns/net >"{folder}/network"
echo "$@" >>"{log}"
[ ! -e "{folder}/dies" ] || {{ echo "no ports"; exit 3; }}
"{folder}/_t-rex-64"
exit $?
"""
PROGRAM = """#!/bin/sh
echo $$ >"{folder}/server"
exec sleep 600
"""
API = """
import json, os, time

class STLError(Exception): pass
class Layer:
    def __init__(self, size=0): self.size = size
    def __truediv__(self, other): return Layer(self.size + len(other))
    def __len__(self): return self.size
def Ether(): return Layer(14)
def IP(src, dst):
    with open({folder!r} + "/destination", "w") as file: file.write(dst)
    return Layer(20)
def UDP(sport, dport, chksum): return Layer(8)
class Kept:
    def __init__(self, **fields): self.__dict__.update(fields)
class STLVmFlowVar(Kept):
    def __init__(self, name, min_value, max_value, size, op): Kept.__init__(self, first=min_value, last=max_value)
class STLVmWrFlowVar(Kept):
    def __init__(self, fv_name, pkt_offset): Kept.__init__(self, where=pkt_offset)
class STLScVmRaw(Kept):
    def __init__(self, steps): Kept.__init__(self, steps=steps)
class STLPktBuilder(Kept):
    def __init__(self, pkt, vm=None): Kept.__init__(self, pkt=pkt, vm=vm)
class STLTXCont(Kept):
    def __init__(self, pps=None, percentage=None): Kept.__init__(self, pps=pps, percentage=percentage)
class STLFlowLatencyStats(Kept):
    def __init__(self, pg_id): Kept.__init__(self, pg_id=pg_id)
class STLStream(Kept):
    def __init__(self, packet, mode, flow_stats=None): Kept.__init__(self, packet=packet, mode=mode, stats=flow_stats)

class STLClient:
    def __init__(self, server): self.pps, self.since, self.streams, self.done = 0, None, [], 0
    def connect(self):
        if os.path.exists({folder!r} + "/dies"): raise STLError("no answer")
    def disconnect(self): pass
    def acquire(self, force): pass
    def reset(self, ports): self.streams, self.since, self.done = [], None, 0
    def clear_stats(self): self.done = 0
    def add_streams(self, streams, ports):
        self.streams = streams
        with open({log!r}, "a") as log:
            for each in streams:
                vm = each.packet.vm.steps[0] if each.packet.vm else None
                kept = {{"size": len(each.packet.pkt), "pps": each.mode.pps, "share": each.mode.percentage}}
                kept.update(ports=[vm.first, vm.last] if vm else None, stamped=each.stats is not None)
                log.write(json.dumps(kept) + "\\n")
    def start(self, ports, mult, force): self.since = time.time()
    def stop(self, ports): self.done, self.since = self._sent(), None
    def _sent(self):
        running = 0 if self.since is None else time.time() - self.since
        rate = sum(each.mode.pps if each.mode.pps is not None else 1e6 for each in self.streams)
        return self.done + running * rate
    def get_stats(self):
        sent = self._sent()
        port = {{"opackets": sent, "ipackets": 0.9 * sent, "oerrors": 0, "ierrors": 0}}
        stamped = {{7: {{"latency": {{"average": 12.5, "total_max": 40}}}}}}
        return {{0: port, 1: port, "latency": stamped if len(self.streams) > 1 else {{}}}}
"""


def make_trex(folder: Path) -> Path:
    """Make the folder; its log is `calls` in it."""
    stl = folder / "automation/trex_control_plane/interactive/trex/stl"
    stl.mkdir(parents=True)
    for package in (stl.parent, stl):
        (package / "__init__.py").touch()
    log = folder / "calls"
    (stl / "api.py").write_text(API.format(log=str(log), folder=str(folder)))
    for name, text in {"t-rex-64": SERVER, "_t-rex-64": PROGRAM}.items():
        (folder / name).write_text(text.format(log=log, folder=folder))
        (folder / name).chmod(0o755)
    return folder
