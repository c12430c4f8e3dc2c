# SPDX-License-Identifier: BSD-3-Clause
"""Define errors, units, file locations and the tables of names, on which all other packages depend."""
