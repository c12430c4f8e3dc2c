# SPDX-License-Identifier: BSD-3-Clause
"""Turn the text that sources record into readings; no parser looks at the host."""
