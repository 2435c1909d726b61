"""Writes the codecs of all declared messages and state records: `make generate`.

Rewrites `oncelog/protocol/generated/`, which is kept in git; a test regenerates and compares. Owns: which files there
are, and which have all functions: those of frequent APIs (`Api.is_frequent`), and all that is stored. Does not own:
their text (`oncelog.protocol.codec`).
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import oncelog.protocol.generated
import oncelog.protocol.messages
import oncelog.protocol.state_records
from oncelog.broker.apis.table import API_TABLE
from oncelog.protocol.codec import module_text
from oncelog.protocol.codec_parts import snake_case
from oncelog.protocol.schema import Schema

GENERATED = Path(oncelog.protocol.generated.__path__[0])


def all_schemas() -> Iterator[tuple[str, Schema]]:
    """Yield (declaring module, schema) for every declared message and record."""
    for package in (oncelog.protocol.messages, oncelog.protocol.state_records):
        for info in iter_modules(package.__path__):
            module = import_module(f"{package.__name__}.{info.name}")
            for value in vars(module).values():
                if isinstance(value, Schema):
                    yield f"{package.__name__}.{info.name}", value


def generate() -> dict[str, str]:
    """Return the text of each file, for every declared message."""
    files = {"__init__.py": '"""Generated codecs: one module a message, written by `make generate`."""\n'}
    for source, schema in all_schemas():
        files[f"{snake_case(schema.name)}.py"] = module_text(source, schema, _is_frequent(schema))
    return files


def _is_frequent(schema: Schema) -> bool:
    if not schema.name.endswith(("Request", "Response")):
        return True
    api = None if schema.api_key is None else API_TABLE.get(schema.api_key)
    return api is not None and api.is_frequent


def main() -> None:
    files = generate()
    for path in GENERATED.glob("*.py"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        path = GENERATED / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    sys.stdout.write(f"{len(files) - 1} codecs in {GENERATED}\n")


if __name__ == "__main__":
    main()
