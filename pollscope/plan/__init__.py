# SPDX-License-Identifier: BSD-3-Clause
"""From a spec to its trials in order, with the search for a highest rate."""
