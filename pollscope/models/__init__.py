# SPDX-License-Identifier: BSD-3-Clause
"""Models of queues and of cores that poll them: exact formulas, and simulations of systems without a formula."""
