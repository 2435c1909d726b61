"""Kafka's wire and record formats: bytes to values and back. Pure: no clock, no socket, nothing of ours imported.

And what the sources and mypyc, which compiles some of them for `make wheel`, have to say to each other: its decorators,
without effect and without its package, and which code is loaded. Here, since it is imported at each start.
"""

from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_):
        return lambda decorated: decorated


def is_compiled(module: ModuleType) -> bool:
    return (module.__file__ or "").endswith(tuple(EXTENSION_SUFFIXES))
