"""The log: structlog's configuration, for people on a terminal and as JSON lines otherwise.

Owns: format, level, destination (standard error; standard output has only the ready line). Does not own: events.
Invariant: a call below the level costs a quarter of a microsecond and formats nothing; where even its arguments are
too many, the caller asks `is_enabled_for(DEBUG)` first.
"""

import logging
import sys
from collections.abc import Callable, MutableMapping
from io import StringIO
from types import ModuleType
from typing import Any, NoReturn, TextIO

from oncelog.protocol.printable import json_text, printable

LEVELS = ("debug", "info", "warning", "error")
_LEVEL_NUMBERS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_METHODS = (
    *("debug", "info", "warning", "warn", "error", "exception", "critical", "fatal", "msg", "log"),
    *("is_enabled_for", "get_effective_level"),
)
DEBUG = _LEVEL_NUMBERS["debug"]


class LogLevel:
    """The level of this process's log, which may change while it runs.

    Every logger of the process has one class, whose methods are those of structlog's class for the level: a call costs
    the same as with a fixed level.
    """

    def __init__(self, structlog: ModuleType, level: str) -> None:
        self._structlog = structlog
        self.name = level
        self.logger_class: Any = type("Logger", (self._class_for(level),), {"level_switch": self})

    def set(self, level: str) -> None:
        """One of LEVELS."""
        methods = self._class_for(level)
        for name in _METHODS:
            setattr(self.logger_class, name, getattr(methods, name))
        self.name = level

    def _class_for(self, level: str) -> Any:
        return self._structlog.make_filtering_bound_logger(_LEVEL_NUMBERS[level])


def start_logging(level: str, stream: TextIO | None = None) -> Any:
    """The logger of this process. structlog's own types are Any. Raises ValueError for another level."""
    if level not in LEVELS:
        raise ValueError(f"the log level must be one of {', '.join(LEVELS)}, not {level!r}")
    stream = sys.stderr if stream is None else stream
    structlog = _structlog()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_renderers(structlog, stream),
        ],
        wrapper_class=LogLevel(structlog, level).logger_class,
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    return structlog.get_logger().bind()  # without the proxy, which looks up the logger at each call


def to_python_logging(name: str) -> Any:
    """A logger that hands its lines to Python's logger of this name, for a broker inside another program. That program
    decides what becomes of them: nothing is configured for the process."""
    structlog = _structlog()
    logger = logging.getLogger(name)

    def hand_over(_: Any, method: str, event: MutableMapping[str, Any]) -> NoReturn:
        what, error = event.pop("event", ""), event.pop("exc_info", None)
        text = " ".join((str(what), *(f"{key}={value}" for key, value in event.items())))
        logger.log(_LEVEL_NUMBERS.get(method, logging.ERROR), "%s", text, exc_info=error)
        raise structlog.DropEvent

    level = LogLevel(structlog, "info")
    return structlog.wrap_logger(None, processors=[_escape, hand_over], wrapper_class=level.logger_class).bind()


def loop_errors(log: Any) -> Callable[[Any, dict[str, Any]], None]:
    """For the event loop: an uncaught error is a line of the log, not a traceback between the lines."""

    def on_error(_: Any, context: dict[str, Any]) -> None:
        log.error("loop.error", message=context.get("message"), exc_info=context.get("exception"))

    return on_error


def _structlog() -> ModuleType:
    """structlog without rich, which it loads if installed: 60 ms and 6 MB for tracebacks we print plainly."""
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
    """Ids, names and messages come from clients and other brokers: each value stays on its line and is escaped."""
    for name, value in event.items():
        if name != "exc_info" and value is not None and not isinstance(value, int | float):
            event[name] = printable(value if isinstance(value, str) else repr(value))
    return event
