"""Files and services that a DSN or PostgreSQL's variables name and that do not exist: the driver's own message is
misleading, or there is none.

Owns: files of certificates, services. Does not own: connecting (`session`), the other messages (`preparing`).
"""

import os
from collections.abc import Mapping
from configparser import ConfigParser, Error
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

_FILES = {"sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY", "sslcrl": "PGSSLCRL"}


def missing_file(dsn: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return what to do about a file of a certificate that cannot be read; None if there is none."""
    given = _given(dsn)
    for name, variable in _FILES.items():
        path = given.get(name) or environ.get(variable)
        if path and not os.access(path, os.R_OK):
            said = name if name in given else variable
            return f"{said} names {path}, which cannot be read: name the file of the certificate."
    return None


def missing_service(dsn: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return what to do about a service that no file has; the driver would connect to this machine instead."""
    given = _given(dsn)
    service = given.get("service") or environ.get("PGSERVICE")
    if not service:
        return None
    home = environ.get("HOME", "")
    file = given.get("servicefile") or environ.get("PGSERVICEFILE") or str(Path(home) / ".pg_service.conf")
    services = ConfigParser(interpolation=None)
    try:
        services.read(file)
    except (Error, UnicodeDecodeError):
        return f"{file} cannot be read as a file of services."
    if services.has_section(service):
        return None
    return f"there is no service {service} in {file}: name one that is there, or another file with PGSERVICEFILE."


def _given(dsn: str | None) -> dict[str, str]:
    try:
        return dict(parse_qsl(urlsplit(dsn or "").query))
    except ValueError:  # it is no URL: the driver says so
        return {}
