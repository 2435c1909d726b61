"""`oncelog service`: the broker as a service of systemd.

Owns: the unit, where it goes, what is left to do. Does not own: users, their directories, starting (`systemctl`).
The unit has a named user, not DynamicUser: that implies RemoveIPC, which would delete the note in shared memory by
which a start after a kill knows that nothing is lost (`broker.storage.local.boot_mark`). MemoryDenyWriteExecute is
left out: ffi may need such memory.
Exit codes: 0 done, 2 not possible.
"""

import os
import re
import shlex
import sys
from pathlib import Path

import click

from oncelog.tools.terminal import confirm, fail, say, yes_option

EXIT_NOT_POSSIBLE = 2
_UNIT = Path("/etc/systemd/system/oncelog.service")
_USER_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,30}\Z")
_HOMES = ("home", "root", "run")
"""The directories of which ProtectHome hides something."""
_TEXT = """\
[Unit]
Description=oncelog, a Kafka-compatible broker
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
User={user}
Group={user}
UMask=0077
ExecStart={command}
# Keys, certificates and tokens are read again, without a restart.
ExecReload=/bin/kill -HUP $MAINPID
# A start may have to read large segments after a kill; a stop flushes.
TimeoutStartSec=infinity
TimeoutStopSec=60
Restart=on-failure
RestartSec=1
# Wrong settings stay wrong.
RestartPreventExitStatus=2
LimitNOFILE=524288

# It writes to its data directory, and to nothing else.
ProtectSystem=strict
ReadWritePaths={data_dir}
ProtectHome={protect_home}
PrivateTmp=yes
PrivateDevices=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
LockPersonality=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
"""


@click.group()
def service() -> None:
    """The broker as a service of systemd."""


@service.command()
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    default=Path("/etc/oncelog/server.properties"),
    show_default=True,
    help="Its settings.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("/var/lib/oncelog"),
    show_default=True,
    help="Where its data is kept, and all that it may write to.",
)
@click.option("--user", metavar="NAME", default="oncelog", show_default=True, help="Its user, and that user's group.")
@click.option("--print", "prints", is_flag=True, help="Print the unit, and write nothing.")
@yes_option
def install(config_file: Path, data_dir: Path, user: str, prints: bool, yes: bool) -> None:
    """Write the unit of systemd, hardened, and say what is left to do.

    The broker runs as a user of its own, may write to its data directory alone, and is started again when it fails.
    `systemd-analyze security oncelog` shows what it may not do.
    """
    if not _USER_NAME.match(user):
        fail(f"{user!r} is no name of a user: lower-case letters, digits, - and _.", EXIT_NOT_POSSIBLE)
    text = unit(config_file.absolute(), data_dir.absolute(), user)
    if prints:
        for line in text.splitlines():
            say(line)
        return
    if os.geteuid() != 0:
        fail(f"only root may write {_UNIT}: repeat it with sudo, or look at it with --print.", EXIT_NOT_POSSIBLE)
    try:
        if _UNIT.exists() and _UNIT.read_text(encoding="utf-8", errors="replace") != text:
            confirm(f"{_UNIT} exists and differs. Replace it?", yes=yes)
        _UNIT.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"cannot write {_UNIT}: {error.strerror or error}.", EXIT_NOT_POSSIBLE)
    say(f"{_UNIT} is written. Next:")
    for line in next_steps(config_file.absolute(), data_dir.absolute(), user):
        say(line)


def unit(config_file: Path, data_dir: Path, user: str) -> str:
    program = (sys.executable, "-P", "-m", "oncelog")
    command = (*program, "serve", "--config", str(config_file), "--data-dir", str(data_dir))
    # What it runs must be readable to it.
    is_at_home = any(path.parts[1] in _HOMES for path in (Path(sys.executable), config_file, data_dir))
    return _TEXT.format(
        user=user,
        command=" ".join(map(_quoted, command)),
        data_dir=_quoted(str(data_dir)),
        protect_home="read-only" if is_at_home else "yes",
    )


def next_steps(config_file: Path, data_dir: Path, user: str) -> list[str]:
    """The commands that are left."""
    directory, data = shlex.quote(str(data_dir.parent)), shlex.quote(str(data_dir))
    settings = shlex.quote(str(config_file))
    return [
        f"id {user} || useradd --system --user-group --home-dir {directory} --shell /usr/sbin/nologin {user}",
        # Hard-linked files keep their owner: Apache Kafka may share them.
        f"install -d -m 0700 {data} && "
        f"find {data} -xdev \\( -type d -o -links 1 \\) -exec chown -h {user}:{user} {{}} +",
        f"chgrp {user} {settings} && chmod 0640 {settings}",
        "systemctl daemon-reload",
        "systemctl enable --now oncelog",
    ]


def _quoted(word: str) -> str:
    """Quote a word as systemd reads it: a % begins a specifier, a $ a variable."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if re.search(r"[\s\"'\\;]", word) else escaped
