"""Which cluster a command asks: --bootstrap, a profile, the environment, or the broker of this machine.

Owns: the order of the four, the file of profiles, addresses. Does not own: the options (`asking`).
The file is `$ONCELOG_CONFIG`, else `oncelog/config.toml` below `$XDG_CONFIG_HOME` or `~/.config`:

    profile = "local"                      # what is used if nothing else says

    [profiles.local]
    bootstrap = "127.0.0.1:9092"

    [profiles.staging]
    bootstrap = "kafka-1:9092,kafka-2:9092"
    timeout = 30                           # seconds, unless --timeout says otherwise
"""

import os.path  # not pathlib: every command would load it for one name
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S = 10.0
MAX_TIMEOUT_S = 86_400
"""Sockets and the event loop have limits of their own, some hundred years."""


class ProfileError(Exception):
    """No such profile, or its file cannot be used; the message says what is wrong with what."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect, and how long a command may take."""

    bootstrap: str
    addresses: tuple[tuple[str, int], ...]
    timeout_s: float


def target(
    bootstrap: str | None, profile: str | None, timeout_s: float | None, environment: Mapping[str, str]
) -> Target:
    """What was typed comes first, then the environment, then the file's own choice. Raises ProfileError."""
    if bootstrap is not None:
        return _target(bootstrap, "--bootstrap", timeout_s)
    if profile is None and "ONCELOG_BOOTSTRAP" in environment:
        return _target(environment["ONCELOG_BOOTSTRAP"], "ONCELOG_BOOTSTRAP", timeout_s)
    path = _path(environment)
    known = _read(path)
    if profile is not None:
        return _profile(known, profile, path, "--profile", timeout_s)
    if "ONCELOG_PROFILE" in environment:
        return _profile(known, environment["ONCELOG_PROFILE"], path, "ONCELOG_PROFILE", timeout_s)
    if "profile" in known:
        return _profile(known, known["profile"], path, f"profile in {path}", timeout_s)
    return _target(DEFAULT_BOOTSTRAP, "--bootstrap", timeout_s)


def _target(bootstrap: str, named_by: str, timeout_s: float | None) -> Target:
    found = []
    for text in bootstrap.split(","):
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise ProfileError(f"{named_by}: {text.strip()!r} is not of the form HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    return Target(bootstrap, tuple(found), timeout_s or DEFAULT_TIMEOUT_S)


def _profile(known: Mapping[str, Any], name: Any, path: str, named_by: str, timeout_s: float | None) -> Target:
    profiles = known.get("profiles", {})
    chosen = profiles.get(name) if isinstance(profiles, dict) and isinstance(name, str) else None
    if not isinstance(chosen, dict):
        there = ", ".join(sorted(profiles)) or "none"
        raise ProfileError(f"{named_by}: there is no profile {name!r} in {path}, which has: {there}")
    bootstrap, seconds = chosen.get("bootstrap"), chosen.get("timeout", DEFAULT_TIMEOUT_S)
    if not isinstance(bootstrap, str) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_TIMEOUT_S:
        raise ProfileError(f'{path}: profile {name!r} needs bootstrap = "HOST:PORT", and timeout in seconds if any')
    return _target(bootstrap, f"profile {name!r} in {path}", timeout_s or float(seconds))


def _path(environment: Mapping[str, str]) -> str:
    if "ONCELOG_CONFIG" in environment:
        return environment["ONCELOG_CONFIG"]
    base = environment.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "oncelog", "config.toml")


def _read(path: str) -> dict[str, Any]:
    if not os.path.isfile(path):
        return {}
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError) as error:
        raise ProfileError(f"{path} cannot be read: {error}") from error
