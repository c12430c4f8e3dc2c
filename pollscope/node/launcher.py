# SPDX-License-Identifier: BSD-3-Clause
"""The scripts that start a bundle's programs with the bundle's own libraries."""

POLLSCOPE = """\
#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
exec "$(dirname "$(readlink -f "$0")")/bin/python3" -m pollscope "$@"
"""

_PYTHON = """\
#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Starts the bundle's Python with the bundle's libraries, and chooses the programs for this processor.
here=$(dirname "$(dirname "$(readlink -f "$0")")")
refuse() { echo "pollscope: $here: $*" >&2; exit 3; }

[ "$(uname -m)" = x86_64 ] || refuse "this bundle is for x86-64, and this host is $(uname -m)"
case $here in
*[':;$']*) refuse "the dynamic linker takes no path with a colon, semicolon or dollar sign (move the folder)" ;;
esac
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || refuse "this host has no glibc (@GLIBC@ or newer is needed)"
glibc=${glibc#glibc }
[ "$(printf '%s\\n' @GLIBC@ "$glibc" | sort -V | head -n 1)" = @GLIBC@ ] ||
    refuse "this host has glibc $glibc (pack on a host with that version or an older one; this bundle needs @GLIBC@)"

flags=" $(sed -n '/^flags/{s/^[^:]*: //p;q}' @CPUINFO@) "
# Prints the first flag that this processor lacks.
lacking() { for flag in "$@"; do case $flags in *" $flag "*) ;; *) echo "$flag" && return ;; esac; done; }
missing=$(lacking cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3)
[ -z "$missing" ] || refuse "this processor lacks $missing (the programs need the level x86-64-v2)"
level=x86-64-v2
[ -n "$(lacking abm avx avx2 bmi1 bmi2 f16c fma movbe xsave)" ] || level=x86-64-v3
export POLLSCOPE_PROGRAMS="${POLLSCOPE_PROGRAMS:-$here/programs/$level}"

# sitecustomize.py takes the folder out again, so that programs of the host get the host's libraries.
LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$here/python/bin/@PYTHON@" -I "$@"
"""

SITE_CUSTOMIZE = '''\
# SPDX-License-Identifier: BSD-3-Clause
"""Give the bundle's Python its packages, and keep the bundle's libraries from the host's programs."""

import os
import sys

_HERE = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
sys.path.append(os.path.join(_HERE, "site-packages"))
# Python starts itself again by this name.
sys.executable = os.path.join(_HERE, "bin", "python3")
_first, _, _rest = os.environ.pop("LD_LIBRARY_PATH", "").partition(":")
if _rest:
    os.environ["LD_LIBRARY_PATH"] = _rest
'''


def python_launcher(version: str, glibc: str, cpuinfo: str = "/proc/cpuinfo") -> str:
    """Return bin/python3 for an interpreter of this name that needs at least this glibc."""
    return _PYTHON.replace("@PYTHON@", version).replace("@GLIBC@", glibc).replace("@CPUINFO@", cpuinfo)
