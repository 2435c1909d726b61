"""Which cluster a command asks: --bootstrap, a profile, the environment, or the broker of this machine; and as whom.

Owns: the order of the four, the file of profiles, addresses. Does not own: the options (`asking`), names and values of
those about security (`client_properties`).
The file is `$ONCELOG_CONFIG`, else `oncelog/config.toml` below `$XDG_CONFIG_HOME` or `~/.config`:

    profile = "local"                      # what is used if nothing else says

    [profiles.local]
    bootstrap = "127.0.0.1:9092"

    [profiles.staging]
    bootstrap = "kafka-1:9093,kafka-2:9093"
    timeout = 30                           # seconds, unless --timeout says otherwise
    security_protocol = "SASL_SSL"         # and the other options of the client about security,
    sasl_mechanism = "SCRAM-SHA-512"       # or command_config, a properties file of Kafka's clients
    sasl_username = "alice"

Security comes from --command-config alone, if there is one. Otherwise from the profile, whose gaps the environment
fills (ONCELOG_SASL_PASSWORD); but one that says nothing of security gets no password of another cluster. Without a
profile it comes from the environment, or from the file that ONCELOG_COMMAND_CONFIG names.
"""

import os.path  # not pathlib: every command would load it for one name
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog.client.security import SecurityOptions

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S = 10.0
_VARIABLE = "ONCELOG_"
MAX_TIMEOUT_S = 86_400
"""Sockets and the event loop have limits of their own, some hundred years."""


class ProfileError(Exception):
    """No such profile, or its file cannot be used; the message says what is wrong with what."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect, how, and how long a command may take."""

    bootstrap: str
    addresses: tuple[tuple[str, int], ...]
    timeout_s: float
    security: "SecurityOptions" = field(repr=False)
    """Options for each client that the command opens."""


def target(
    bootstrap: str | None,
    profile: str | None,
    timeout_s: float | None,
    environment: Mapping[str, str],
    command_config: str | None = None,
) -> Target:
    """What was typed comes first, then the environment, then the file's own choice. Raises ProfileError."""

    def unnamed(bootstrap: str, named_by: str) -> Target:
        return _target(bootstrap, named_by, timeout_s, _security(None, environment, command_config))

    if bootstrap is not None:
        return unnamed(bootstrap, "--bootstrap")
    if profile is None and "ONCELOG_BOOTSTRAP" in environment:
        return unnamed(environment["ONCELOG_BOOTSTRAP"], "ONCELOG_BOOTSTRAP")
    path = _path(environment)
    known = _read(path)
    if profile is not None:
        name, named_by = profile, "--profile"
    elif "ONCELOG_PROFILE" in environment:
        name, named_by = environment["ONCELOG_PROFILE"], "ONCELOG_PROFILE"
    elif "profile" in known:
        name, named_by = known["profile"], f"profile in {path}"
    else:
        return unnamed(DEFAULT_BOOTSTRAP, "--bootstrap")
    return _of_profile(known, name, path, named_by, timeout_s, environment, command_config)


def named(
    text: str,
    named_by: str,
    timeout_s: float | None,
    environment: Mapping[str, str],
    command_config: str | None = None,
) -> Target:
    """HOST:PORT, several with commas, or the name of a profile. Raises ProfileError."""
    if ":" in text:
        return _target(text, named_by, timeout_s, _security(None, environment, command_config))
    path = _path(environment)
    return _of_profile(_read(path), text, path, named_by, timeout_s, environment, command_config)


def _of_profile(
    known: Mapping[str, Any],
    name: Any,
    path: str,
    named_by: str,
    timeout_s: float | None,
    environment: Mapping[str, str],
    command_config: str | None,
) -> Target:
    chosen = _profile(known, name, path, named_by)
    security = _security(chosen, environment, command_config)
    seconds = timeout_s or float(chosen.get("timeout", DEFAULT_TIMEOUT_S))
    return _target(chosen["bootstrap"], f"profile {name!r} in {path}", seconds, security)


def _target(bootstrap: str, named_by: str, timeout_s: float | None, security: "SecurityOptions") -> Target:
    found = []
    for text in bootstrap.split(","):
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise ProfileError(f"{named_by}: {text.strip()!r} is not of the form HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    return Target(bootstrap, tuple(found), timeout_s or DEFAULT_TIMEOUT_S, security)


def _security(
    profile: Mapping[str, Any] | None, environment: Mapping[str, str], command_config: str | None
) -> "SecurityOptions":
    """Raises ProfileError."""
    values: Mapping[str, Any] = {
        name.removeprefix(_VARIABLE).lower(): value for name, value in environment.items() if name.startswith(_VARIABLE)
    }
    if profile is not None:
        values = {**values, "command_config": None, **profile} if "security_protocol" in profile else profile
    path = command_config or values.get("command_config")
    if path is None and not any(name.startswith(("security_", "sasl_", "ssl_")) for name in values):
        return {}
    from oncelog.tools.client_properties import ClientPropertiesError, named_options, read_client_properties

    try:
        return named_options(values) if path is None else read_client_properties(path)
    except ClientPropertiesError as error:
        raise ProfileError(str(error)) from error


def _profile(known: Mapping[str, Any], name: Any, path: str, named_by: str) -> dict[str, Any]:
    profiles = known.get("profiles", {})
    chosen = profiles.get(name) if isinstance(profiles, dict) and isinstance(name, str) else None
    if not isinstance(chosen, dict):
        there = ", ".join(sorted(profiles)) or "none"
        raise ProfileError(f"{named_by}: there is no profile {name!r} in {path}, which has: {there}")
    bootstrap, seconds = chosen.get("bootstrap"), chosen.get("timeout", DEFAULT_TIMEOUT_S)
    if not isinstance(bootstrap, str) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_TIMEOUT_S:
        raise ProfileError(f'{path}: profile {name!r} needs bootstrap = "HOST:PORT", and timeout in seconds if any')
    return chosen


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
