"""What a copy prints: a table of topics, a bar on a terminal, lines otherwise, one JSON object a line for programs.

Owns: the words. Does not own: printing (`terminal`). On a pipe a long copy says something every `_QUIET_S`.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from oncelog.protocol.amounts import size_text
from oncelog.tools.terminal import marked, say, say_json, say_table

if TYPE_CHECKING:
    from oncelog.tools.copy.copying import Outcome
    from oncelog.tools.copy.groups import GroupCopy
    from oncelog.tools.copy.survey import Survey

_QUIET_S = 10.0
_STOP = (
    "Everything is copied, and what comes follows. Stop the producers and consumers of the source, then press Enter."
)


class Reporter:
    """The `Watcher` of the command; a context in which it may draw."""

    def __init__(self, *, target: str, as_json: bool) -> None:
        self._target = target
        self._as_json = as_json
        self._began_s = self._said_s = time.monotonic()
        self._record_count = self._size_bytes = 0
        self._left = 0
        self._problem = ""
        self._is_surveyed = False
        self._groups: dict[str, GroupCopy] = {}
        self._enter: asyncio.Task[None] | None = None
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not self._as_json:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (BarColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=Console(stderr=True, emoji=False), transient=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    # --- the watcher --------------------------------------------------------------------------------------------------

    def on_preview(self, found: "Survey") -> None:
        """Show a dry run. Raises CopyError if nothing could be copied, once that is shown."""
        self._show(found)
        if not self._as_json:
            say()
            say("Nothing was changed: --dry-run.")
        found.require_possible()

    def on_survey(self, found: "Survey") -> None:
        self._problem = ""
        self._left = sum(plan.offset_count for plan in found.topics)
        if self._is_surveyed:
            return
        self._is_surveyed = True
        self._show(found)
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("", total=None)

    def on_copied(self, record_count: int, size_bytes: int, left: int) -> None:
        self._record_count += record_count
        self._size_bytes += size_bytes
        self._left = left
        self._problem = ""
        if self._as_json:
            self._event("copied", records=record_count, bytes=size_bytes, left=left)
        elif self._bar is not None:
            self._bar.update(
                self._task, total=self._record_count + left, completed=self._record_count, description=self._progress()
            )
        elif time.monotonic() - self._said_s > _QUIET_S:
            self._said_s = time.monotonic()
            say(self._progress())

    def on_groups(self, groups: "Sequence[GroupCopy]") -> None:
        changed = [
            each for each in groups if self._groups.get(each.group_id) != each and (each.moved_count or each.note)
        ]
        self._groups = {each.group_id: each for each in groups}
        if self._as_json and changed:
            self._event("groups", groups=_rows(changed))

    def on_trouble(self, problem: str) -> None:
        """Report a problem once, however often it is met."""
        if problem == self._problem:
            return
        self._problem = problem
        if self._as_json:
            self._event("waiting", problem=problem)
        elif self._bar is not None:
            self._bar.console.print(marked(problem))
        else:
            say(problem, err=True)

    async def until_stopped(self) -> None:
        """Wait for a line of standard input, or its end."""
        from oncelog.tools.record.produce import first_line

        if self._as_json:
            self._event("ready")
        elif self._bar is not None:
            self._bar.console.print(_STOP)
        else:
            say(_STOP)
        if self._enter is None:  # asked again after a failure, the line is still waited for
            self._enter = asyncio.create_task(first_line())
        await asyncio.shield(self._enter)

    def on_end(self, outcome: "Outcome") -> None:
        """Report the end of the copy."""
        seconds = time.monotonic() - self._began_s
        if self._as_json:
            self._event(
                "done",
                records=self._record_count,
                bytes=self._size_bytes,
                seconds=round(seconds, 3),
                groups=_rows(outcome.groups),
                hold_seconds=None if outcome.hold_s is None else round(outcome.hold_s, 3),
            )
            return
        say(f"Copied {self._record_count:,} records, {size_text(self._size_bytes)} in {seconds:.1f} s.")
        if outcome.groups:
            say()
            say_table(_rows(outcome.groups), ends_in_prose=True)
        if outcome.hold_s is not None:
            say()
            say(f"Switched over in {outcome.hold_s:.3f} s: start the clients with {self._target}.")

    # ------------------------------------------------------------------------------------------------------------------

    def _progress(self) -> str:
        rate = self._size_bytes / 1e6 / max(0.001, time.monotonic() - self._began_s)
        return f"{self._record_count:,} records copied, {self._left:,} offsets behind, {rate:.1f} MB/s"

    def _show(self, found: "Survey") -> None:
        rows = [
            {
                "topic": plan.name,
                "partitions": plan.source.partition_count,
                "offsets": plan.offset_count,
                "settings": len(plan.configs),
                "what": plan.action,
            }
            for plan in found.topics
        ]
        if self._as_json:
            self._event("survey", source=found.source_cluster_id, target=found.target_cluster_id, topics=rows)
        elif rows:
            say_table(rows, ends_in_prose=True)
        else:
            say("There is no topic to copy yet.")

    def _event(self, name: str, **fields: Any) -> None:
        say_json({"event": name, **fields}, indent=None)
        sys.stdout.flush()


def _rows(groups: "Sequence[GroupCopy]") -> list[dict[str, Any]]:
    return [
        {"group": each.group_id, "offsets": each.offset_count, "moved": each.moved_count, "note": each.note or None}
        for each in groups
    ]
