"""What the sources and mypyc, which compiles some of them for `make wheel`, have to say to each other.

Owns: the decorators of mypyc that we use, without effect and without its package; which code is loaded. Does not own:
what is compiled (pyproject.toml), and how (`hatch_build.py`).
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
