"""How README and docs say to install the package: one setting, which `make pages` writes wherever it stands.

Owns: what stands behind `pip install`. Does not own: the hints of errors, which name what was installed
(`oncelog.installing`).
"""

import re
from pathlib import Path

PACKAGE = "."
"""What pip installs in a checkout. `oncelog`, once a package index has it."""
_ROOT = Path(__file__).resolve().parent.parent
PAGES = (_ROOT / "README.md", *sorted((_ROOT / "docs").rglob("*.md")))
_INSTALL = r"(pip install\s+(?:-\S+\s+)*)"
_WITH_EXTRAS = re.compile(rf"{_INSTALL}'(?:\.|oncelog)(\[[a-z,-]+\])'")
_ALONE = re.compile(rf"{_INSTALL}(?:\.|oncelog)(?=[\s`]|$)")


SAYS_ITS_VERSION = "oncelog --version"
"""What ends each such command of a page: one that installs nothing, and says nothing, is noticed there."""


def commands_of(text: str) -> list[str]:
    """The lines of a page's shell blocks that install this package."""
    blocks = re.findall(r"^```(?:bash|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if "pip install" in line]


def with_install_lines(text: str) -> str:
    """The page with each installation of this package as it works today."""
    text = _WITH_EXTRAS.sub(rf"\g<1>'{PACKAGE}\g<2>'", text)
    return _ALONE.sub(rf"\g<1>{PACKAGE}", text)
