"""A partition as a picture in the terminal: one cell per batch, and below the cells how far readers may read.

Owns: colours, rulers, the legend. Does not own: what the batches are, their letters (`partition`). Every cell has a
letter, so that the picture is the same in a pipe and readable without its colours.
"""

import re
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import groupby

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from oncelog.protocol.amounts import size_text
from oncelog.protocol.printable import printable
from oncelog.tools.log.map.partition import MEANINGS, PartitionMap, SegmentMap, State

_STYLES: dict[int, str] = {
    State.PLAIN: "white on grey30",
    State.COMMITTED: "#000000 on green3",
    State.ABORTED: "white on red3",
    State.OPEN: "#000000 on gold1",
    State.COMMIT_MARKER: "bold green3",
    State.ABORT_MARKER: "bold #ff6b6b",
    State.OTHER_CONTROL: "bold cyan",
    State.EMPTIED: "grey50",
    State.DAMAGED: "bold white on magenta",
}
_POINTER = "▲"
_MIN_CELLS = 10
_SVG_COLUMNS = 96
_MOST_SHOWN = 10


def draw(found: PartitionMap, console: Console, width: int, first_cell: int = 0, end_cell: int | None = None) -> None:
    """Print the picture of the cells [first_cell, end_cell); `width` is that of the terminal."""
    end = len(found.states) if end_cell is None else end_cell
    offset_width = len(str(found.log_end_offset))
    cells_a_row = max(_MIN_CELLS, width - offset_width - 2)
    rulers = _rulers(found)
    console.print(_headline(found), highlight=False, soft_wrap=True)
    not_drawn = [text for cell, text in rulers if not (first_cell <= cell < end or end == len(found.states) <= cell)]
    if not_drawn:
        console.print(Text(f"not drawn: {', '.join(not_drawn)}", style="cyan"), highlight=False, soft_wrap=True)
    for segment in found.segments:
        start, stop = max(segment.first_cell, first_cell), min(segment.end_cell, end)
        is_last = segment is found.segments[-1] and stop == segment.end_cell
        if start >= stop and not is_last:
            continue
        console.print()
        console.print(_segment_line(segment), highlight=False, soft_wrap=True)
        for line in _rows(found, range(start, stop, cells_a_row), rulers, offset_width, is_last=is_last):
            console.print(line, highlight=False, soft_wrap=True)
        for line in _problems(found, segment):
            console.print(line, highlight=False, soft_wrap=True)
    console.print()
    for line in (*_legend(found.states[first_cell:end]), *_open_transactions(found)):
        console.print(line, highlight=False, soft_wrap=True)


def svg(found: PartitionMap, width: int | None = None, first_cell: int = 0, end_cell: int | None = None) -> str:
    """Return the map as a self-contained image, identical for identical files."""
    console = Console(
        record=True,
        file=StringIO(),
        width=width or _SVG_COLUMNS,
        force_terminal=True,
        legacy_windows=False,
        emoji=False,
    )
    draw(found, console, console.width, first_cell, end_cell)
    # Viewers would download the fonts that are named there.
    layout = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    layout = layout.replace("<svg ", '<svg xml:space="preserve" ')  # some viewers drop spaces, hard ones too
    image = console.export_svg(title=f"oncelog log map {printable(found.name)}", code_format=layout, unique_id="map")
    return "".join(f"{line.rstrip()}\n" for line in image.splitlines())


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}{'es' if what.endswith('h') else 's'}"


def _headline(found: PartitionMap) -> Text:
    parts = [
        _plural(len(found.segments), "segment"),
        _plural(len(found.states), "batch"),
        size_text(found.size_bytes),
    ]
    return Text.assemble((printable(found.name), "bold"), f"   {', '.join(parts)}")


def _segment_line(segment: SegmentMap) -> Text:
    batches = _plural(segment.end_cell - segment.first_cell, "batch")
    return Text.assemble(
        (printable(segment.file), "bold"), (f"   {batches}, {size_text(segment.size_bytes)}", "grey58")
    )


def _problems(found: PartitionMap, segment: SegmentMap) -> Iterator[Text]:
    for position, offset, problem in segment.problems[:_MOST_SHOWN]:
        cause = "; it is not durable: a torn write, or one in progress" if found.is_torn_end(segment, offset) else ""
        yield Text(f"  position {position}, offset {offset}: {printable(problem)}{cause}", style="magenta")
    if len(segment.problems) > _MOST_SHOWN:
        yield Text(f"  and {len(segment.problems) - _MOST_SHOWN} more", style="magenta")


# --- rulers -----------------------------------------------------------------------------------------------------------


def _rulers(found: PartitionMap) -> list[tuple[int, str]]:
    """Return (cell, text) for each named offset, in the order of offsets."""
    named: dict[int, list[str]] = {}
    for name, offset in (
        ("log start offset", found.log_start_offset),
        ("last stable offset", found.last_stable_offset),
        ("high watermark", found.high_watermark),
        ("log end offset", found.log_end_offset),
    ):
        named.setdefault(offset, []).append(name)
    return [(found.cell_of(offset), f"{' = '.join(names)} {offset}") for offset, names in sorted(named.items())]


def _rows(
    found: PartitionMap, starts: range, rulers: Sequence[tuple[int, str]], offset_width: int, *, is_last: bool
) -> Iterator[Text]:
    """Yield the rows; `starts` has the first cell of each."""
    for start in starts or (starts.start,):
        end = max(start, min(start + starts.step, starts.stop))
        first_offset = found.base_offsets[start] if start < end else found.log_end_offset
        row = Text(f"{first_offset:>{offset_width}} ")
        for state, same in groupby(found.states[start:end]):
            letter, _ = MEANINGS[State(state)]
            row.append(letter * len(list(same)), _STYLES[state])
        yield row
        # Offsets after the last batch belong to the last row.
        is_end = is_last and end == starts.stop
        for cell, text in rulers:
            if start <= cell < end or (is_end and cell >= end):
                yield _ruler(min(cell, end) - start, text, offset_width + 1, starts.step)


def _ruler(column: int, text: str, margin: int, cells_a_row: int) -> Text:
    if column + len(text) + 2 <= cells_a_row or column < len(text) + 1:
        return Text(f"{' ' * (margin + column)}{_POINTER} {text}", style="cyan")
    return Text(f"{' ' * (margin + column - len(text) - 1)}{text} {_POINTER}", style="cyan")


# --- below the picture ------------------------------------------------------------------------------------------------


def _legend(drawn: Sequence[int]) -> Iterator[Text]:
    counts = {state: drawn.count(state) for state in MEANINGS}
    width = len(str(max(counts.values(), default=0)))
    for state, (letter, meaning) in MEANINGS.items():
        if counts[state]:
            yield Text.assemble((letter, _STYLES[state]), f" {counts[state]:>{width}}  {meaning}")


def _open_transactions(found: PartitionMap) -> Iterator[Text]:
    if found.open_transactions:
        yield Text()
    for transaction in found.open_transactions[:_MOST_SHOWN]:
        yield Text(
            f"open since offset {transaction.first_offset}: producer {transaction.producer_id} "
            f"epoch {transaction.producer_epoch}, {_plural(transaction.batch_count, 'batch')}"
        )
    more = len(found.open_transactions) - _MOST_SHOWN
    if more > 0:
        yield Text(f"and {more} more")
