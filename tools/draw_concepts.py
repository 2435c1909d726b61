"""Draws the pictures of docs/understand/concepts.md, docs/images/concept_*.svg: `make pages` writes them.

A partition is a string with a letter for each batch, in the order of offsets (`_CELLS` has the letters). Each picture
has a background of its own, so it is readable on light and dark pages.
"""

from collections.abc import Callable, Iterator

from tools.draw_transactions import FILLS, GREY, INK, LINE, page, text

WIDTH, LEFT, CELL = 760, 172, 46
RED, GREEN, BLUE = "#b42318", "#1f7a4d", "#1d5fa8"
_CELLS = {
    ".": ("", "#e4e7eb"),
    "C": ("", FILLS["CompleteCommit"]),
    "A": ("", FILLS["CompleteAbort"]),
    "O": ("", FILLS["Ongoing"]),
    "+": ("COMMIT", FILLS["CompleteCommit"]),
    "-": ("ABORT", FILLS["CompleteAbort"]),
    " ": ("", "none"),
}
"""A batch in no transaction, of a committed, an aborted, an open one; markers; nothing yet."""


def x_of(offset: float) -> float:
    return LEFT + offset * CELL


def log(y: float, name: str, cells: str, *, numbers: bool = False) -> Iterator[str]:
    """A partition: a box for each batch, each with one record, so that batches are offsets."""
    yield text(30, y + 22, name, 14)
    for offset, kind in enumerate(cells):
        words, fill = _CELLS[kind]
        dash = " stroke-dasharray='3 4'" if kind == " " else ""
        yield (
            f"<rect x='{x_of(offset) + 2:.0f}' y='{y:.0f}' width='{CELL - 4}' height='34' rx='4' fill='{fill}' "
            f"stroke='{LINE if kind == ' ' else INK}'{dash}/>"
        )
        if words:
            yield text(x_of(offset) + CELL / 2, y + 21, words, 9, anchor="middle")
        if numbers:
            yield text(x_of(offset) + CELL / 2, y - 7, str(offset), 11, GREY, "middle")


def upto(y: float, name: str, seen: str, colour: str) -> Iterator[str]:
    """A reader: a line below the log as far as it may read, with a dot below each batch that it gets."""
    yield text(30, y + 5, name, 13, colour)
    end = x_of(len(seen))
    yield f"<line x1='{x_of(0):.0f}' y1='{y}' x2='{end:.0f}' y2='{y}' stroke='{colour}' stroke-width='1.5'/>"
    yield f"<line x1='{end:.0f}' y1='{y - 8}' x2='{end:.0f}' y2='{y + 8}' stroke='{colour}' stroke-width='3'/>"
    for offset, each in enumerate(seen):
        if each == "x":
            yield f"<circle cx='{x_of(offset) + CELL / 2:.0f}' cy='{y}' r='6' fill='{colour}'/>"


def pointer(y: float, offset: int, words: str, colour: str = BLUE, anchor: str = "start") -> Iterator[str]:
    """A position of the log, between two offsets, with its name below."""
    x = x_of(offset)
    yield f"<line x1='{x:.0f}' y1='{y - 44:.0f}' x2='{x:.0f}' y2='{y + 12:.0f}' stroke='{colour}' stroke-width='2'/>"
    yield text(x + (6 if anchor == "start" else -6), y + 12, words, 12, colour, anchor)


def legend(y: float, *entries: tuple[str, str]) -> Iterator[str]:
    x = 30.0
    for kind, words in entries:
        fill = _CELLS[kind][1]
        yield f"<rect x='{x:.0f}' y='{y - 11:.0f}' width='14' height='14' rx='3' fill='{fill}' stroke='{INK}'/>"
        yield text(x + 20, y, words, 12)
        x += 46 + 6.6 * len(words)


def arrow(x1: float, y1: float, x2: float, y2: float, colour: str = INK) -> str:
    return (
        f"<line x1='{x1:.0f}' y1='{y1:.0f}' x2='{x2:.0f}' y2='{y2:.0f}' stroke='{colour}' stroke-width='1.6' "
        "marker-end='url(#arrow)'/>"
    )


def box(x: float, y: float, width: float, words: str, fill: str) -> Iterator[str]:
    yield f"<rect x='{x:.0f}' y='{y:.0f}' width='{width:.0f}' height='34' rx='6' fill='{fill}' stroke='{INK}'/>"
    yield text(x + width / 2, y + 22, words, 13, anchor="middle")


_KINDS = ((".", "in no transaction"), ("C", "committed"), ("A", "aborted"), ("O", "open"))


def isolation() -> str:
    parts = [
        text(30, 34, "One partition, two readers", 17),
        *legend(62, *_KINDS),
        *log(106, "the log", ".CAC+-O.C.+ ", numbers=True),
        *pointer(150, 6, "last stable offset"),
        *pointer(150, 11, "high watermark", anchor="end"),
        *upto(196, "read_committed", "xx x  ", GREEN),
        *upto(230, "read_uncommitted", "xxxx  xxxx ", RED),
        text(30, 268, "A dot is a record that the program gets. Markers are for the client alone.", 12, GREY),
    ]
    return page(WIDTH, 290, "Two isolation levels over one partition", parts)


def markers() -> str:
    parts = [
        text(30, 34, "A transaction over two partitions: nothing is moved, a marker decides", 17),
        *legend(62, (".", "others"), ("O", "open"), ("C", "committed")),
        text(30, 100, "before the end", 13, GREY),
        *log(112, "payments-0", ".O.O."),
        *log(156, "orders-0", "..O.O"),
        text(30, 224, "after the commit", 13, GREY),
        *log(236, "payments-0", ".C.C.+"),
        *log(280, "orders-0", "..C.C+"),
        text(x_of(6) + 16, 252, "One marker in each partition says of all", 12, GREY),
        text(x_of(6) + 16, 270, "batches of this producer before it that", 12, GREY),
        text(x_of(6) + 16, 288, "they count. An ABORT marker says that", 12, GREY),
        text(x_of(6) + 16, 306, "they do not; they stay where they are.", 12, GREY),
    ]
    return page(WIDTH, 336, "Markers end a transaction in each of its partitions", parts)


def two_phases() -> str:
    top, no_return = 108, 372
    steps = (
        (30, 110, "Ongoing", FILLS["Ongoing"]),
        (190, 150, "PrepareCommit", FILLS["PrepareCommit"]),
        (404, 100, "marker", FILLS["CompleteCommit"]),
        (404, 100, "marker", FILLS["CompleteCommit"]),
        (570, 150, "CompleteCommit", FILLS["CompleteCommit"]),
    )
    heights = (0, 0, -28, 28, 0)
    parts = [text(30, 34, "Two phases: first the decision, then the markers", 17)]
    for (x, width, words, fill), height in zip(steps, heights, strict=True):
        parts += box(x, top + height, width, words, fill)
    middle = top + 17
    parts += [
        arrow(140, middle, 188, middle),
        arrow(340, middle, 402, middle - 26),
        arrow(340, middle, 402, middle + 26),
        arrow(504, middle - 28, 568, middle - 4),
        arrow(504, middle + 28, 568, middle + 4),
        f"<line x1='{no_return}' y1='56' x2='{no_return}' y2='262' stroke='{RED}' stroke-width='2' "
        "stroke-dasharray='6 4'/>",
        text(no_return - 8, 66, "the decision is on disk:", 12, RED, "end"),
        text(no_return + 8, 66, "the point of no return", 12, RED),
        text(30, 214, "A crash here: the transaction is open.", 13),
        text(30, 234, "Its producer commits or aborts it, or its", 12, GREY),
        text(30, 252, "timeout does, or the next of its id.", 12, GREY),
        text(no_return + 16, 214, "A crash here: it is committed.", 13),
        text(no_return + 16, 234, "The start writes all markers again, and then", 12, GREY),
        text(no_return + 16, 252, "CompleteCommit. A second marker is harmless.", 12, GREY),
    ]
    return page(WIDTH, 280, "The point of no return between two phases", parts)


def fencing() -> str:
    first, coordinator, second = 130, 380, 630
    parts = [text(30, 34, "Two processes with one transactional id", 17)]
    for x, words in ((first, "billing, first"), (coordinator, "the broker"), (second, "billing, second")):
        parts.append(text(x, 66, words, 14, anchor="middle"))
        parts.append(f"<line x1='{x}' y1='78' x2='{x}' y2='352' stroke='{LINE}'/>")

    def message(y: float, start: float, end: float, words: str, colour: str = INK) -> list[str]:
        return [
            arrow(start, y, end, y, colour),
            text((start + end) / 2, y - 7, words, 12, colour, "middle"),
        ]

    parts += [
        *message(106, first, coordinator - 4, "InitProducerId"),
        *message(136, coordinator, first + 4, "producer id 7, epoch 0"),
        *message(166, first, coordinator - 4, "a batch, epoch 0"),
        text(first - 12, 198, "stops", 12, RED, "end"),
        text(first - 12, 214, "for a while", 12, RED, "end"),
        *message(206, second, coordinator + 4, "InitProducerId"),
        text(coordinator - 12, 224, "aborts the open transaction", 12, RED, "end"),
        *message(246, coordinator, second - 4, "producer id 7, epoch 1"),
        *message(276, second, coordinator + 4, "a batch, epoch 1"),
        *message(306, first, coordinator - 4, "a batch, epoch 0"),
        *message(336, coordinator, first + 4, "refused: it is fenced", RED),
    ]
    return page(WIDTH, 372, "A newer epoch fences an older producer", parts)


def last_stable_offset() -> str:
    parts = [
        text(30, 34, "The last stable offset waits for the oldest open transaction", 17),
        *legend(62, *_KINDS),
    ]
    moments = (
        ("1: two are open", ".O.O..", 1, "everything from offset 1 on waits"),
        ("2: the later ends", ".O.C..+", 1, "the first is still open"),
        ("3: the first ends", ".A.C..+-", 8, "all is decided"),
    )
    for at, (name, cells, offset, words) in enumerate(moments):
        y = 92 + at * 92
        parts += [*log(y, name, cells), *pointer(y + 44, offset, words)]
    parts += [
        text(30, 378, "Blue: the last stable offset. Readers of committed data get what is to its left,", 12, GREY),
        text(30, 396, "in order, so plain records wait behind an open transaction, too.", 12, GREY),
    ]
    return page(WIDTH, 414, "The last stable offset at three moments", parts)


PICTURES: dict[str, Callable[[], str]] = {
    "concept_isolation.svg": isolation,
    "concept_markers.svg": markers,
    "concept_two_phases.svg": two_phases,
    "concept_fencing.svg": fencing,
    "concept_last_stable_offset.svg": last_stable_offset,
}
