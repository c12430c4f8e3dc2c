# SPDX-License-Identifier: BSD-3-Clause
"""Check the boot parameters of IOMMU modes, the mode that the kernel has, and the contents of GRUB's file."""

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import playbook_modules
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

journal = playbook_modules.load("pollscope_journal")
boot = playbook_modules.load("pollscope_boot_parameters")
iommu = playbook_modules.load("pollscope_iommu")


def host(root: Path, table: str | None, types: dict[str, str] | None = None) -> Path:
    """Write a /sys with the firmware's table and the groups, `{device: type of its group}`."""
    (root / "sys/firmware/acpi/tables").mkdir(parents=True)
    if table:
        (root / "sys/firmware/acpi/tables" / table).write_text("")
    for number, (device, kind) in enumerate((types or {}).items()):
        (root / "sys/class/iommu/dmar0").mkdir(parents=True, exist_ok=True)
        group = root / f"sys/kernel/iommu_groups/{number}"
        group.mkdir(parents=True)
        (group / "type").write_text(f"{kind}\n")
        folder = root / "sys/bus/pci/devices" / device
        folder.mkdir(parents=True)
        (folder / "iommu_group").symlink_to(group)
    return root


@pytest.mark.parametrize(
    ("table", "mode", "words"),
    [
        ("DMAR", "off", ["intel_iommu=off"]),
        ("DMAR", "passthrough", ["intel_iommu=on", "iommu=pt"]),
        ("DMAR", "strict", ["intel_iommu=on", "iommu.passthrough=0", "iommu.strict=1"]),
        ("IVRS", "off", ["amd_iommu=off"]),
        ("IVRS", "lazy", ["iommu.passthrough=0", "iommu.strict=0"]),
        (None, "off", []),
    ],
)
def test_words_of_a_mode(tmp_path: Path, table: str | None, mode: str, words: list[str]) -> None:
    assert iommu.words_for(mode, host(tmp_path, table)) == words


@pytest.mark.parametrize("mode", ["passthrough", "lazy", "strict"])
def test_without_an_iommu_a_mode_is_refused(tmp_path: Path, mode: str) -> None:
    with pytest.raises(journal.HostError, match="the firmware describes no IOMMU"):
        iommu.words_for(mode, host(tmp_path, None))


@pytest.mark.parametrize(
    ("types", "devices", "mode"),
    [
        ({}, [], "off"),
        ({"a": "identity", "b": "identity"}, [], "passthrough"),
        ({"a": "DMA", "b": "DMA-FQ"}, [], "lazy+strict"),
        ({"a": "DMA", "b": "identity"}, ["a"], "strict"),
        ({"a": "DMA-FQ", "b": "unmanaged"}, [], "lazy"),
        ({"a": "blocked"}, [], "unknown"),
    ],
)
def test_mode_from_the_groups(tmp_path: Path, types: dict[str, str], devices: list[str], mode: str) -> None:
    assert iommu.found_mode(host(tmp_path, "DMAR", types), devices) == mode


def test_a_device_without_a_group_is_refused(tmp_path: Path) -> None:
    host(tmp_path, "DMAR", {"a": "DMA"})
    (tmp_path / "sys/bus/pci/devices/b").mkdir()
    with pytest.raises(journal.HostError, match="b has no IOMMU group"):
        iommu.found_mode(tmp_path, ["b"])
    with pytest.raises(journal.HostError, match="c: there is no such PCI device"):
        iommu.found_mode(tmp_path, ["c"])


def test_another_mode_is_reported_with_the_known_reason() -> None:
    iommu.verify("passthrough", "passthrough")
    with pytest.raises(journal.HostError, match="is off, should be passthrough"):
        iommu.verify("passthrough", "off")
    with pytest.raises(journal.HostError, match="caching mode"):
        iommu.verify("lazy", "strict")


@pytest.mark.parametrize(
    ("line", "active"),
    [
        ("BOOT_IMAGE=/vmlinuz root=/dev/vda1 quiet intel_iommu=on iommu=pt", True),
        ("intel_iommu=on iommu=pt iommu=nopt", False),
        ("iommu=nopt intel_iommu=on iommu=pt", True),
        ("intel_iommu=on", False),
    ],
)
def test_the_last_parameter_of_a_name_counts(line: str, active: bool) -> None:
    assert boot.is_active(["intel_iommu=on", "iommu=pt"], line.split()) is active


NAMES = st.text("azAZ09_.-", min_size=1, max_size=12)
VALUES = st.text("azAZ09_.,:@-", max_size=12)
WORDS = st.lists(NAMES | st.builds("{}={}".format, NAMES, VALUES), min_size=1, max_size=6)


@settings(deadline=None)
@given(WORDS)
def test_the_drop_in_holds_the_words(words: list[str]) -> None:
    boot.check_words(words)
    assert boot.words_of(boot.drop_in(words)["text"]) == words


def test_one_of_several_packages_is_enough() -> None:
    packages = playbook_modules.load("pollscope_packages")
    names = ["git", "systemd-timesyncd|chrony|ntpsec", "make"]
    assert packages.missing_of(names, {"git", "chrony"}) == ["make"]
    assert packages.missing_of(names, set()) == ["git", "make", "systemd-timesyncd"]


@pytest.mark.parametrize("word", ["", "a b", 'a="b"', "$(reboot)", "a=`id`", "a=b\n", "a;b", "a=b\\"])
def test_a_word_that_a_shell_would_interpret_is_refused(word: str) -> None:
    with pytest.raises(journal.HostError, match="is not a kernel parameter"):
        boot.check_words([word])


class Grub:
    """A host whose update-grub writes the menu from its files; it can be cut off before that."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.defaults, self.drop_ins = root / "default/grub", root / "default/grub.d"
        self.menu, self.dead = root / "grub.cfg", False
        self.drop_ins.mkdir(parents=True)
        self.defaults.write_text('GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_TIMEOUT=5\n')
        places = {"DEFAULTS": self.defaults, "DROP_INS": self.drop_ins, "MENU": self.menu, "PENDING": root / "pending"}
        for name, path in places.items():
            monkeypatch.setattr(boot, name, path)
        monkeypatch.setattr(boot, "run", self.run)
        monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(root / "state"))
        self.run(["update-grub"])

    def run(self, command: Sequence[str]) -> str:
        assert command == ["update-grub"]
        if self.dead:
            raise KeyboardInterrupt  # like a lost connection, this ends all processes of the play
        files = [self.defaults, *sorted(self.drop_ins.glob("*.cfg"))]
        line = ""
        for text in (path.read_text() for path in files):
            line = line + " " + " ".join(boot.words_of(text)) if boot.words_of(text) else line or text.split('"')[1]
        self.menu.write_text(f"menuentry x\n  linux /vmlinuz root=/dev/vda1 {line}\n")
        return ""

    def play(self, state: str, *words: str) -> list[str]:
        parameters = {"journal": "iommu", "state": state, "words": list(words)}
        found: list[str] = boot.act(SimpleNamespace(params=parameters, check_mode=False))[0]
        return found


@pytest.fixture
def grub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Grub:
    return Grub(tmp_path, monkeypatch)


def test_a_restore_that_was_cut_off_leaves_no_parameter_in_the_menu(grub: Grub) -> None:
    before = grub.menu.read_text()
    grub.play("present", "iommu=pt")
    assert "iommu=pt" in grub.menu.read_text()
    grub.dead = True
    with pytest.raises(KeyboardInterrupt):
        grub.play("absent")
    assert not list(grub.drop_ins.iterdir())
    assert "iommu=pt" in grub.menu.read_text(), "the file is gone, the menu is not"
    grub.dead = False
    grub.play("absent")
    assert grub.menu.read_text() == before
    assert not any(Path(os.environ["POLLSCOPE_STATE_DIR"]).rglob("*.journal"))


def test_a_change_that_was_cut_off_reaches_the_menu(grub: Grub) -> None:
    grub.dead = True
    with pytest.raises(KeyboardInterrupt):
        grub.play("present", "iommu=pt")
    grub.dead = False
    grub.play("present", "iommu=pt")
    assert "iommu=pt" in grub.menu.read_text()


def test_a_menu_that_keeps_a_parameter_is_an_error(grub: Grub, monkeypatch: pytest.MonkeyPatch) -> None:
    grub.play("present", "iommu=pt")
    monkeypatch.setattr(boot, "run", lambda command: "")
    with pytest.raises(journal.HostError, match=r"still boots with 'iommu=pt'"):
        grub.play("absent")


def test_a_parameter_that_the_host_has_itself_may_stay(grub: Grub) -> None:
    grub.defaults.write_text('GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt"\n')
    grub.play("present", "iommu=pt")
    assert grub.play("absent")
    assert "iommu=pt" in grub.menu.read_text()
