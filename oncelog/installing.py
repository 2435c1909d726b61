"""How to install an extra of this very package, for the hints of errors.

Owns: the command. It names what this package was installed from (PEP 610: a checkout, a wheel, a repository), which
works where no package index knows it, and its name alone if it came from an index. The sources that run without being
installed are named by their directory: a name would ask a public index for what it has not.
"""

import json
import shlex
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

_NAME = "oncelog"


def how_to_install(extra: str) -> str:
    """Return the command that adds an extra to this installation."""
    return f"pip install {_wanted(extra)}"


def _wanted(extra: str) -> str:
    name = f"{_NAME}[{extra}]"
    try:
        noted = metadata.distribution(_NAME).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return shlex.quote(f"{Path(__file__).resolve().parents[1]}[{extra}]")
    if noted is None:
        return f"'{name}'"
    source = json.loads(noted)
    url = source["url"]
    if source.get("dir_info", {}).get("editable"):
        return f"-e {shlex.quote(f'{unquote(urlsplit(url).path)}[{extra}]')}"
    if "vcs_info" in source:
        url = f"{source['vcs_info']['vcs']}+{url}@{source['vcs_info']['commit_id']}"
    return shlex.quote(f"{name} @ {url}")
