"""Modules that a Python process of Spark has imported, kept out of its collections of garbage.

Spark's daemon calls `gc.collect()` in a process after each task and each call, and that looks at every object of every
module: 50 ms of processor time with pyarrow, pandas and a client, where the task itself may take five. Modules stay for
as long as the process does.

Owns: when they are set aside, after the first work of its kind in a process, which imports what the next ones need.
What was garbage then is never freed; it is little, and no more is added.
"""

import gc
from functools import cache
from typing import Literal


@cache
def set_imported_aside(after: Literal["plan", "read", "encode", "commit"]) -> None:  # noqa: ARG001  # the cache's key
    """Leave what there is now out of all later collections, in this process."""
    gc.freeze()
