"""The public API of oncelog: `from oncelog import Producer, Consumer, Admin`, and every other public name.

Owns: the public names, which are those of `oncelog.client`. `oncelog.sync` has blocking versions of the clients.
Everything else in this package is private and may change.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog.client.public import *  # noqa: F403  # a type checker reads the list there
    from oncelog.client.public import __all__ as __all__

    __version__: str
else:

    def __getattr__(name: str) -> Any:
        # Imported on first use: `oncelog serve` needs none of them and starts faster without. `from oncelog import
        # broker` asks for this attribute before it imports the module of that name.
        if name == "__all__" or name[:1].isupper():
            names = import_module("oncelog.client.public")
            if name == "__all__" or name in names.__all__:
                return getattr(names, name)
        if name == "__version__":
            return import_module("importlib.metadata").version("oncelog")
        raise AttributeError(f"module 'oncelog' has no attribute {name!r}")

    def __dir__() -> list[str]:
        # Not what is imported above for this module's own use.
        own = [name for name, value in globals().items() if name[:2] == "__" or isinstance(value, ModuleType)]
        return [*own, "__version__", *__getattr__("__all__")]
