"""What mkdocs needs beside mkdocs.yml: the version below each page, and Markdown inside of tables in HTML.

The pages are written for GitHub, which renders it there by itself; Python-Markdown does where each element asks for it.
"""

import re
from importlib.metadata import version
from typing import Any

_TABLE = re.compile(r"^<table>$.*?^</table>$", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> None:
    config.copyright = f"oncelog {version('oncelog')}"


def on_page_markdown(markdown: str, **_: Any) -> str:
    return _TABLE.sub(lambda table: re.sub(r"<(table|tr|td)>", r'<\1 markdown="block">', table[0]), markdown)
