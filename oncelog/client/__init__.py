"""A thin, typed asyncio client for Kafka-compatible brokers: producer with transactions, consumer, admin.

`oncelog` re-exports the same names; `oncelog.sync` has blocking versions of the clients. The names are those of
`public`, which is imported when the first of them is used, so that a command imports only the modules that it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog.client.public import *  # noqa: F403  # a type checker reads the list there
    from oncelog.client.public import __all__ as __all__
else:

    def __getattr__(name: str) -> Any:
        # `from oncelog.client import admin` asks for this attribute before it imports the module of that name.
        if name != "__all__" and not name[:1].isupper():
            raise AttributeError(f"module 'oncelog.client' has no attribute {name!r}")
        return getattr(import_module("oncelog.client.public"), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
