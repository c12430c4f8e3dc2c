# SPDX-License-Identifier: BSD-3-Clause
"""What everything else stands on: errors, units, the project's files, names of what can be registered."""
