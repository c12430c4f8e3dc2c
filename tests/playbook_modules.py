# SPDX-License-Identifier: BSD-3-Clause
"""Load the Ansible modules of playbooks/ under the names that Ansible gives them."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import ansible.module_utils

PLAYBOOKS = Path(__file__).resolve().parent.parent / "playbooks"


def load(name: str) -> ModuleType:
    """Load a module of playbooks/module_utils, playbooks/library or a role's library."""
    # `module_utils` of ansible.cfg makes pollscope's own engine ansible.module_utils.pollscope.
    for folder in (PLAYBOOKS / "module_utils", PLAYBOOKS.parent):
        if str(folder) not in ansible.module_utils.__path__:
            ansible.module_utils.__path__.append(str(folder))
    if (PLAYBOOKS / "module_utils" / f"{name}.py").exists():
        return importlib.import_module(f"ansible.module_utils.{name}")
    (path,) = (*PLAYBOOKS.glob(f"library/{name}.py"), *PLAYBOOKS.glob(f"roles/*/library/{name}.py"))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
