"""Templates, and the one way in which a value gets into a page.

Owns: escaping, the words for times and sizes, addresses of pages. Does not own: what is shown (`pages`).
Invariant: each value that a template shows passes `_finalized`, which makes it one printable line
(`protocol.printable`, as on a terminal), and then Jinja's escaping, which is on for all templates. No template says
`safe`; a test looks.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from oncelog.protocol.amounts import duration_text, setting_text, size_text
from oncelog.protocol.printable import printable
from oncelog.protocol.transaction_states import explained, meaning_of

_NOTHING = "–"


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("oncelog.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "url": url,
        "meaning_of": meaning_of,
        "explained": explained,
        "setting_text": setting_text,
        "newline": Markup("\n"),
    }
    made.filters |= {"duration": duration, "moment": moment, "count": count, "size": size_text}
    return made


def _finalized(value: Any) -> Any:
    """Return the value as text for a page; what a macro or another template has made is left as it is."""
    if isinstance(value, Markup):
        return value
    return _NOTHING if value is None else printable(str(value))


def url(path: str, /, **query: object) -> str:
    """Return the address of a page, without parameters that are None. Whatever a name contains stays inside its
    value."""
    given = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def duration(milliseconds: int | None) -> str:
    return _NOTHING if milliseconds is None else duration_text(milliseconds)


def moment(milliseconds: int) -> str:
    """Return a time since the epoch by the console's own clock and in its time zone."""
    if milliseconds < 0:
        return _NOTHING
    try:
        at = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    except (OverflowError, OSError, ValueError):  # outside the range of years that the calendar has
        return f"{milliseconds} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03}"


def count(number: int, what: str) -> str:
    """Return a count as `1 batch`, `1,024 batches`."""
    plural = what if number == 1 else f"{what}{'es' if what.endswith('h') else 's'}"
    return f"{number:,} {plural}"


class Renderer:
    """Renders a page whole, or only the part that changes while it is looked at."""

    def __init__(self, common: Mapping[str, object]) -> None:
        self._environment = environment()
        self._environment.globals |= common

    def part(self, template: str, model: Mapping[str, Any]) -> str:
        return self._environment.get_template(f"{template}.html").render(model)

    def page(self, title: str, content: str, *, section: str, live_url: str | None) -> str:
        """Return a whole page, whose `content` has been rendered by `part`."""
        layout = self._environment.get_template("layout.html")
        return layout.render(title=title, content=Markup(content), section=section, live_url=live_url)
