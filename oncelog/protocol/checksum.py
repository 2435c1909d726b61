"""CRC-32C, by the extension module of the crc32c package.

Owns: finding it. The package itself looks up its own version on import, with all of importlib.metadata and the email
parser below it: 15 ms, of the 200 that a broker takes to load what its first response needs. If the extension is not
found under its name, the package is imported as it is.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final


def _crc32c() -> Callable[..., int]:
    package = PathFinder.find_spec("crc32c")
    if package is not None:
        spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            extension = module_from_spec(spec)
            spec.loader.exec_module(extension)
            function: Callable[..., int] = extension.crc32c
            return function
    import crc32c as whole_package

    return whole_package.crc32c


crc32c: Final = _crc32c()
"""Takes data, the checksum of the preceding data and 0, and returns the checksum."""
