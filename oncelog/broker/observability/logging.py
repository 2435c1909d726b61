"""The log: structlog's configuration, for people on a terminal and as JSON lines otherwise.

Owns: format, levels, destination (standard error; standard output has only the ready line). Does not own: events, or
which lines of a repeated fault are left out (`repeats`).
Invariant: a call below the level costs a quarter of a microsecond and formats nothing; where even its arguments are
too many, the caller asks `is_enabled_for(DEBUG)` first.

There are four loggers, each with its level, by Kafka's names: requests, transactions, decisions of the authorizer, and
the root, which is all else
and whose level the others have until they are given their own.
"""

import logging
import sys
from collections.abc import Callable, Collection, MutableMapping
from contextlib import suppress
from io import StringIO
from types import ModuleType
from typing import Any, NoReturn, TextIO

from oncelog.broker.observability.repeats import Repeats
from oncelog.protocol.printable import json_text, printable

LEVELS = ("debug", "info", "warning", "error")
_LEVEL_NUMBERS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_METHODS = (
    *("debug", "info", "warning", "warn", "error", "exception", "critical", "fatal", "msg", "log"),
    *("is_enabled_for", "get_effective_level"),
)
DEBUG = _LEVEL_NUMBERS["debug"]

ROOT = "root"
REQUESTS = "kafka.request.logger"
"""The logger with one line for each request, at debug."""
AUTHORIZER = "kafka.authorizer.logger"
"""The logger with one line for what a client was not allowed to do, at info; for what it was, at debug."""
TRANSACTIONS = "org.apache.kafka.coordinator.transaction"
"""The logger with one line for each transition of a transaction, at debug, and a summary a minute, at info."""


class LogLevel:
    """The level of one logger of this process, which may change while it runs.

    A logger has a class of its own, whose methods are those of structlog's class for the level: a call costs the same
    as with a fixed level.
    """

    def __init__(self, structlog: ModuleType, level: str, repeats: Repeats | None = None) -> None:
        """Makes the root, which has the other loggers."""
        self._structlog = structlog
        self._watchers: list[Callable[[], None]] = []
        self.name = level
        """The level's name, one of LEVELS: its own, or the root's."""
        self.repeats = repeats or Repeats()
        self.logger_class: Any = type("Logger", (self._class_for(level),), {"level_switch": self})
        self.children: dict[str, LogLevel] = {}
        """The other loggers, by name; a child has none."""
        self._is_own = True

    def child(self, name: str) -> "LogLevel":
        """Return another logger, with this one's level until it has its own."""
        found = self.children.get(name)
        if found is None:
            found = self.children[name] = LogLevel(self._structlog, self.name, self.repeats)
            found._is_own = False
        return found

    def watch(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when the level has changed."""
        self._watchers.append(on_change)

    def set(self, level: str) -> None:
        """Set the level, one of LEVELS."""
        self._is_own = True
        self._apply(level)
        for child in self.children.values():
            if not child._is_own:
                child._apply(level)

    def unset(self, name: str) -> None:
        """Give a child this level again."""
        child = self.children[name]
        child._is_own = False
        child._apply(self.name)

    def _apply(self, level: str) -> None:
        methods = self._class_for(level)
        for name in _METHODS:
            setattr(self.logger_class, name, getattr(methods, name))
        self.name = level
        for on_change in self._watchers:
            on_change()

    def _class_for(self, level: str) -> Any:
        return self._structlog.make_filtering_bound_logger(_LEVEL_NUMBERS[level])


def level_of(log: Any) -> LogLevel | None:
    """Return the level of the broker's own log; None if it is another program's."""
    level = getattr(log, "level_switch", None)
    return level if isinstance(level, LogLevel) else None


def logger_of(log: Any, name: str) -> Any:
    """Return the same log under another name, by which its level is set; `log` itself if that is another program's."""
    root = level_of(log)
    return log if root is None else root.child(name).logger_class(log._logger, log._processors, log._context)


def start_logging(level: str, stream: TextIO | None = None) -> Any:
    """Return the logger of this process. structlog's own types are Any. Raises ValueError for another level."""
    if level not in LEVELS:
        raise ValueError(f"the log level must be one of {', '.join(LEVELS)}, not {level!r}")
    stream = sys.stderr if stream is None else stream
    structlog = _structlog()
    root = LogLevel(structlog, level)
    structlog.configure(
        processors=[
            _without_repeats(structlog, root.repeats),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_renderers(structlog, stream),
        ],
        wrapper_class=root.logger_class,
        logger_factory=structlog.PrintLoggerFactory(_Steady(stream)),
        cache_logger_on_first_use=True,
    )
    return structlog.get_logger().bind()  # without the proxy, which looks up the logger at each call


class _Steady:
    """The stream of the log. A line that cannot be written, because the terminal is closed, the disk full, or the
    reader of the pipe gone, is dropped; logging must not fail the operation."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def to_python_logging(name: str, expected: Collection[str] = (), because: str = "") -> Any:
    """Return a logger that passes its lines to Python's logger of this name, for a broker inside another program. That
    program decides what becomes of them: nothing is configured for the process. Warnings of the `expected` events are
    information, and end in `because`."""
    structlog = _structlog()
    logger = logging.getLogger(name)

    def hand_over(_: Any, method: str, event: MutableMapping[str, Any]) -> NoReturn:
        what, error = event.pop("event", ""), event.pop("exc_info", None)
        text = " ".join((str(what), *(f"{key}={value}" for key, value in event.items())))
        if what in expected:
            method, text = "info", f"{text} ({because})"
        logger.log(_LEVEL_NUMBERS.get(method, logging.ERROR), "%s", text, exc_info=error)
        raise structlog.DropEvent

    root = LogLevel(structlog, "info")
    processors = [_without_repeats(structlog, root.repeats), _escape, hand_over]
    return structlog.wrap_logger(None, processors=processors, wrapper_class=root.logger_class).bind()


def loop_errors(log: Any) -> Callable[[Any, dict[str, Any]], None]:
    """Return an exception handler for the event loop: an uncaught error is a line of the log, not a traceback between
    the lines."""

    def on_error(_: Any, context: dict[str, Any]) -> None:
        log.error("loop.error", message=context.get("message"), exc_info=context.get("exception"))

    return on_error


def _structlog() -> ModuleType:
    """Import structlog without rich, which it loads if installed: 60 ms and 6 MB for tracebacks that we print
    plainly."""
    hide_rich = "rich" not in sys.modules
    if hide_rich:
        sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog
        import structlog.dev
    finally:
        if hide_rich:
            del sys.modules["rich"]
    return structlog


def _without_repeats(structlog: ModuleType, repeats: Repeats) -> Callable[..., MutableMapping[str, Any]]:
    def keep(_: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if repeats.may_write(method, event):
            return event
        raise structlog.DropEvent

    return keep


def _renderers(structlog: ModuleType, stream: TextIO) -> list[Any]:
    if stream.isatty():

        def traceback(out: TextIO, exc_info: Any) -> None:
            plain = StringIO()
            structlog.dev.plain_traceback(plain, exc_info)
            # Indented: a line of an error's text cannot be mistaken for a log line.
            out.write("\n".join(f"  {printable(line)}" for line in plain.getvalue().split("\n")))

        return [_escape, structlog.dev.ConsoleRenderer(exception_formatter=traceback)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=json_text)]


def _escape(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape each value, so that it stays on its line: ids, names and messages come from clients and other brokers."""
    for name, value in event.items():
        if name != "exc_info" and value is not None and not isinstance(value, int | float):
            event[name] = printable(value if isinstance(value, str) else repr(value))
    return event
