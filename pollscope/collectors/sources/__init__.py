# SPDX-License-Identifier: BSD-3-Clause
"""Where counters come from: a file a source or a family of kin tools; its parser in `parsers/` bears the same name."""
