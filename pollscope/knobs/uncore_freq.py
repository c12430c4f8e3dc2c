# SPDX-License-Identifier: BSD-3-Clause
"""Limits of the uncore (mesh) clock, which sets the speed of LLC, memory controller and PCIe roots."""

from pathlib import Path

from pollscope.knobs.frequency_range import FrequencyRange


class UncoreFreq(FrequencyRange):
    """package_PP_die_DD (kernel documentation, admin-guide/pm/intel_uncore_frequency_scaling)."""

    name = "uncore_freq"
    summary = "lower and upper limit of the uncore clock of each die, in kHz"
    aims = "`package_PP_die_DD` (all)"
    where = "`intel_uncore_frequency`"
    files = ("min_freq_khz", "max_freq_khz")

    def folder(self) -> Path:
        return self.host.cpu_dir / "intel_uncore_frequency"

    def missing(self) -> str:
        return f"{self.folder()} holds no die: no Intel server processor, or the driver is not loaded"
