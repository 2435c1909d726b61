"""The type variables of keys and values: bytes unless a serializer says otherwise (PEP 696).

Owns: their names and defaults, for type checkers: `Producer` without parameters is `Producer[bytes, bytes]`. At run
time they are plain, since Python has defaults from 3.13 only.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
    OutK = TypeVar("OutK", default=bytes)
    OutV = TypeVar("OutV", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    OutK = TypeVar("OutK")
    OutV = TypeVar("OutV")
