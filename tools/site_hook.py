"""What mkdocs needs beside mkdocs.yml, since the pages are written for GitHub: Markdown inside of tables in HTML.

GitHub renders it there by itself, Python-Markdown where each element asks for it.
"""

import re
from typing import Any

_TABLE = re.compile(r"^<table>$.*?^</table>$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    return _TABLE.sub(lambda table: re.sub(r"<(table|tr|td)>", r'<\1 markdown="block">', table[0]), markdown)
