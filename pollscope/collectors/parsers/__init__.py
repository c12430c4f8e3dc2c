# SPDX-License-Identifier: BSD-3-Clause
"""What sources record, read into readings: text in, numbers out; no parser looks at the host."""
