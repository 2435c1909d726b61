"""The file of results of a proof, a line of JSON for each part, and the tables of the page that is written from it."""

import json
import os
import platform
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar


class Found(Protocol):
    """The result of one part: a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def is_bad(self) -> bool: ...


One = TypeVar("One")


@dataclass(frozen=True, slots=True)
class Kept(Generic[One]):
    """How the results of a subject are kept: of those with the same key the newest."""

    read_line: Callable[[dict[str, Any]], One]
    key: Callable[[One], Hashable]
    order: Callable[[One], Any] | None = None
    """The order of results; None: the order in which they were first found."""
    write_line: Callable[[One], Any] = asdict  # type: ignore[assignment]

    def read(self, file: Path) -> list[One]:
        """Returns the results in the file; no file is no results."""
        lines = file.read_text().splitlines() if file.exists() else []
        return [*{self.key(each): each for each in (self.read_line(json.loads(line)) for line in lines)}.values()]

    def keep(self, file: Path, found: One) -> None:
        kept = [*({self.key(each): each for each in (*self.read(file), found)}).values()]
        if self.order is not None:
            kept.sort(key=self.order)
        file.parent.mkdir(exist_ok=True)
        whole = file.with_name(f".{file.name}")
        whole.write_text("".join(json.dumps(self.write_line(each)) + "\n" for each in kept))
        os.replace(whole, file)  # a run that is ended here loses nothing of earlier ones


def today() -> str:
    return time.strftime("%Y-%m-%d")


def own_version() -> str:
    return version("oncelog").partition("+")[0]


def system() -> str:
    return f"Python {platform.python_version()}, {platform.machine()}"


def table(titles: Sequence[str], rows: Iterable[Iterable[object]], numbers: Collection[int] = ()) -> Iterator[str]:
    """The lines of a table; `numbers` are the columns that end at the right."""
    yield row(titles)
    yield f"|{'|'.join('---:' if column in numbers else '---' for column in range(len(titles)))}|"
    for cells in rows:
        yield row(cells)


def row(cells: Iterable[object]) -> str:
    texts = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
    return f"| {' | '.join(texts)} |"


def listed(texts: Iterable[str]) -> str:
    """Each once, in order."""
    return ", ".join(sorted({*texts}))
