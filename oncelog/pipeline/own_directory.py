"""A directory for temporary files that a task knows again: is it on the driver's machine, or does it see its files?

Owns: how it is made, and the token in it. Invariant: it is this user's alone; what another user made, or a link that
leads elsewhere, is not used.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import uuid4

_TOKEN = "token"


@dataclass(frozen=True, slots=True)
class OwnDirectory:
    """The directory as the driver sees it, and the token that a task must find there."""

    directory: str
    token: str

    @classmethod
    def make(cls, parent: str, *names: str) -> Self | None:
        """Make a directory below `parent`, each of `names` inside the one before; None if it cannot be had."""
        directory = Path(parent)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for name in names:
                directory /= name
                directory.mkdir(mode=0o700, exist_ok=True)
                if directory.lstat().st_uid != os.getuid():
                    return None
            token = directory / _TOKEN
            if not token.exists():
                written = directory / f"{_TOKEN}.{uuid4().hex}"
                written.write_text(uuid4().hex)
                written.replace(token)
            return cls(str(directory), token.read_text())
        except OSError:
            return None

    @property
    def is_visible(self) -> bool:
        """Whether this process sees the directory that the driver made."""
        try:
            return Path(self.directory, _TOKEN).read_text() == self.token
        except OSError:
            return False
