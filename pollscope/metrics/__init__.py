# SPDX-License-Identifier: BSD-3-Clause
"""From the record of a trial to its metrics: pure functions and the metric dictionary."""
