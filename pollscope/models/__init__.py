# SPDX-License-Identifier: BSD-3-Clause
"""Models of queues and of cores that poll them: formulas that are exact, and a simulation of what has none."""
