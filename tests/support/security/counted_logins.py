"""How often this process's clients have logged in by a password or a token."""

from types import SimpleNamespace

import pytest

from oncelog.client.wire.login import Login
from oncelog.client.wire.sasl import PasswordLogins


def counted_logins(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Its `count` is that of the logins from now on."""
    logins, new = SimpleNamespace(count=0), PasswordLogins.new

    async def counted(self: PasswordLogins) -> Login:
        logins.count += 1
        return await new(self)

    monkeypatch.setattr(PasswordLogins, "new", counted)
    return logins
