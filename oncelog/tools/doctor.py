"""`oncelog doctor`: the usual troubles of a cluster and of the machine that a broker runs on, each as one row.

Owns: the checks, and what to do about what they find. Does not own: the requests. Nothing is changed.
Exit codes: 0 nothing is wrong ("look" is advice), 1 something is, 2 the doctor itself failed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

import click

from oncelog.protocol.amounts import size_text
from oncelog.protocol.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from oncelog.protocol.transaction_states import NO_TIMEOUT_MS, meaning_of
from oncelog.tools.asking import (
    EXIT_FOUND,
    Answer,
    attempt,
    choose,
    connection_options,
    show,
    tls_context_of,
    within,
)

if TYPE_CHECKING:
    from ssl import SSLContext

    from oncelog.client.admin.client import Admin
    from oncelog.tools.profiles import Target

_COORDINATORS = (
    (TRANSACTION_STATE, "transaction.state.log.replication.factor"),
    (TRANSACTION_STATE, "transaction.state.log.min.isr"),
    (CONSUMER_OFFSETS, "offsets.topic.replication.factor"),
)
_SHARE_COORDINATOR = (
    (SHARE_GROUP_STATE, "share.coordinator.state.topic.replication.factor"),
    (SHARE_GROUP_STATE, "share.coordinator.state.topic.min.isr"),
)
"""Settings of share groups. In a cluster without such groups, where nothing waits, Kafka's defaults are not wrong."""
_SYNC_COUNT = 50
_SLOW_SYNC_MS = 20.0
"""The time of a sync that is slow: a producer that waits for each record then writes fewer than 50 a second. An SSD
takes 0.1 to 5 ms, a disk 10."""
_FEW_OPEN_FILES = 1024
"""The number of open files that is few, though many systems give it; each connection and each open segment takes
one."""
_FULL_PERCENT = 95
_FULL_BYTES = 1 << 20
"""The free space that is too little: the largest batch by default (`max.message.bytes`), with less one may be
refused."""
_AHEAD_MS = 60_000
_LONG_MS = 60_000
"""The age of a transaction that is long: one is usually over in a second, and its readers wait so long for it."""
_MOST_TRANSACTIONS = 10
_MOST_PARTITIONS = 1_000
"""The most partitions that are asked for the timestamp of their newest record."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of the doctor: `result` is ok, look (perhaps wanted), or wrong."""

    check: str
    result: Literal["ok", "look", "wrong"]
    detail: str


@click.command()
@connection_options
@click.option(
    "--data-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Also the disk below DIR, and this machine's limits: run it where the broker runs.",
)
@click.option(
    "--outbox", "outbox_dsn", metavar="DSN", help="Also the outbox in this PostgreSQL: its relays, or the broker's own."
)
def doctor(
    bootstrap: str | None,
    profile: str | None,
    command_config: str | None,
    timeout_s: float | None,
    as_json: bool,
    data_dir: Path | None,
    outbox_dsn: str | None,
) -> None:
    """Look for the usual troubles: addresses that clients cannot reach, missing leaders, hanging and long transactions,
    clocks; certificates that end soon.

    With --data-dir also a slow or full disk, and too few open files. With --outbox also rows that wait or are refused,
    and relays that have stopped.
    """
    chosen = choose(bootstrap, profile, timeout_s, command_config)
    findings: list[Finding] = []
    attempt(lambda: asyncio.run(_of_cluster(chosen, findings)), chosen)
    if data_dir is not None:
        findings += _of_machine(data_dir)
    if outbox_dsn is not None:
        findings += asyncio.run(_of_outbox(outbox_dsn))
    is_wrong = any(each.result == "wrong" for each in findings)
    rows = [asdict(each) for each in findings]
    show(Answer(rows, exit_code=EXIT_FOUND if is_wrong else 0, ends_in_prose=True), as_json)


# --- the cluster ------------------------------------------------------------------------------------------------------


async def _of_cluster(chosen: "Target", findings: list[Finding]) -> None:
    """Adds what is found within --timeout."""
    from oncelog.client.values.errors import RequestTimedOut

    try:
        async with within(chosen.timeout_s, chosen):
            await _find(chosen, findings)
    except RequestTimedOut as error:
        findings.append(Finding("cluster", "wrong", f"{error.message}; --timeout waits longer"))


async def _find(chosen: "Target", findings: list[Finding]) -> None:
    from oncelog.client.admin.client import Admin
    from oncelog.client.values.errors import KafkaError

    context = tls_context_of(chosen)
    # Each blocks the loop, so they share the time.
    share_s = chosen.timeout_s / len(chosen.addresses)
    findings += [_reach(f"{host}:{port}", host, port, share_s, context) for host, port in chosen.addresses]
    if context is not None:
        reached = [each for each, found in zip(chosen.addresses, findings, strict=True) if found.result == "ok"]
        findings += [_certificate(*each, share_s, context) for each in reached]
    responding = [
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for (host, port), each in zip(chosen.addresses, findings, strict=False)
        if each.result == "ok"
    ]
    if not responding:
        return
    checks: list[Callable[[Admin], Awaitable[list[Finding]]]]
    checks = [_leaders, _internal_topics, _log_dirs, _transactions, _clocks]
    options: Any = {
        "default_api_timeout_ms": chosen.timeout_s * 1000,
        "client_id": "oncelog-doctor",
        **chosen.security,
    }
    async with Admin(responding, **options) as admin:
        nodes = (await admin.describe_cluster()).nodes
        advertised = [_advertised(node_id, *nodes[node_id], share_s / len(nodes), context) for node_id in sorted(nodes)]
        findings += advertised
        if any(each.result == "wrong" for each in advertised):
            return
        for check in checks:
            try:
                findings += await check(admin)
            except KafkaError as error:
                findings.append(Finding(check.__name__.strip("_").replace("_", " "), "wrong", str(error)))


def _reach(check: str, host: str, port: int, timeout_s: float, context: "SSLContext | None") -> Finding:
    from oncelog.health import NotHealthy, check_health

    begun_s = time.perf_counter()
    try:
        check_health(host, port, timeout_s, context)
    except NotHealthy as error:
        return Finding(check, "wrong", str(error))
    return Finding(check, "ok", f"responds after {(time.perf_counter() - begun_s) * 1000:.1f} ms")


def _certificate(host: str, port: int, timeout_s: float, context: "SSLContext") -> Finding:
    """Check for how long the certificate is still good. One that has ended is not accepted: `_reach` has found that."""
    from oncelog.broker.security.file_changes import HOW_TO_REPLACE, WARN_S
    from oncelog.health import NotHealthy, certificate_end_s

    check = f"certificate of {host}:{port}"
    try:
        end_s = certificate_end_s(host, port, timeout_s, context)
    except NotHealthy as error:
        return Finding(check, "wrong", str(error))
    left_s = end_s - int(time.time())
    detail = f"ends on {time.strftime('%Y-%m-%d', time.gmtime(end_s))}, in {left_s // 86_400} days"
    if left_s < WARN_S:
        return Finding(check, "look", f"{detail}: {HOW_TO_REPLACE}")
    return Finding(check, "ok", detail)


def _advertised(node_id: int, host: str, port: int, timeout_s: float, context: "SSLContext | None") -> Finding:
    found = _reach(f"node {node_id}", host, port, timeout_s, context)
    if found.result == "ok":
        return Finding(found.check, "ok", f"advertises {host}:{port}, which {found.detail}")
    advice = f"set advertised.listeners of node {node_id} to an address that its clients reach"
    return Finding(found.check, "wrong", f"it tells clients to connect to {host}:{port}, but {found.detail}: {advice}")


async def _leaders(admin: "Admin") -> list[Finding]:
    topics = await admin.describe_topics()
    parts = [(each.name, part) for each in topics for part in each.partitions]
    lost = [f"{name}-{part.partition}" for name, part in parts if part.leader < 0]
    behind = [f"{name}-{part.partition}" for name, part in parts if len(part.in_sync_replicas) < len(part.replicas)]
    nodes = (await admin.describe_cluster()).nodes
    damaged = [
        f"{name}-{part.partition}"
        for name, part in parts
        if part.leader < 0 and not nodes.keys().isdisjoint(part.offline_replicas)
    ]
    if damaged:
        advice = "their files cannot be used; the log of the broker says why, and `oncelog log verify` what is lost"
        return [
            Finding(
                "leaders",
                "wrong",
                f"without a leader: {_some(lost)}: of {_some(damaged)} a broker that runs is a replica; {advice}",
            )
        ]
    if lost:
        return [Finding("leaders", "wrong", f"without a leader: {_some(lost)}; start the brokers that have them")]
    if behind:
        return [Finding("leaders", "look", f"a replica is not in sync: {_some(behind)}")]
    return [Finding("leaders", "ok", f"{len(parts)} partitions of {len(topics)} topics have one")]


async def _internal_topics(admin: "Admin") -> list[Finding]:
    """Check for Kafka's defaults in a cluster of one or two nodes: it never gets its internal topics, and clients wait
    for them."""
    node_count = len((await admin.describe_cluster()).nodes)
    existing = await admin.list_topics(include_internal=True)
    configs = await admin.describe_configs()
    groups_wait, share_groups_wait = (
        [
            f"{key}={configs[key]}"
            for topic, key in settings
            if topic not in existing and int(configs.get(key) or 1) > node_count
        ]
        for settings in (_COORDINATORS, _SHARE_COORDINATOR)
    )
    if groups_wait:
        detail = f"groups and transactions wait for more brokers than the {node_count} there are"
        return [Finding("internal topics", "wrong", f"{detail}: {', '.join(groups_wait)}; lower these settings")]
    if share_groups_wait:
        detail = f"share groups would wait for more brokers than the {node_count} there are"
        return [Finding("internal topics", "look", f"{detail}: {', '.join(share_groups_wait)}")]
    return [Finding("internal topics", "ok", "are there, or can be created")]


async def _log_dirs(admin: "Admin") -> list[Finding]:
    """Check the disks as the brokers report them; versions before KIP-827 report none. Of a database the size is
    unknown, and the usable space is only once it refuses writes."""
    found = []
    for each in await admin.describe_log_dirs():
        if each.total_bytes > 0:
            found.append(_space(f"disk of node {each.node_id}", each.path, each.total_bytes, each.usable_bytes))
        elif each.usable_bytes == 0:
            detail = f"{each.path} refuses writes: the broker's log says why"
            found.append(Finding(f"storage of node {each.node_id}", "wrong", detail))
    return found


def _space(check: str, path: str, total_bytes: int, free_bytes: int) -> Finding:
    percent = 100 * (total_bytes - free_bytes) / total_bytes
    detail = f"{percent:.0f} % used, {size_text(free_bytes)} free"
    if free_bytes < _FULL_BYTES:
        advice = f"{path} is full, writes are refused: make space on its volume, or shorten topics"
        return Finding(check, "wrong", f"{advice} (`oncelog record delete`, `oncelog config alter`)")
    return Finding(check, "ok" if percent < _FULL_PERCENT else "look", detail)


async def _transactions(admin: "Admin") -> list[Finding]:
    from oncelog.tools.txn.operations import find_hanging, find_long

    now_ms = time.time_ns() // 1_000_000
    found = []
    hanging = await find_hanging(admin, now_ms)
    if hanging:
        places = _some([f"{row['topic']}-{row['partition']}" for row in hanging])
        advice = "read_committed readers wait there; `oncelog txn find-hanging` shows more"
        found.append(Finding("transactions", "wrong", f"hanging in {places}: {advice}"))
    for row in (await find_long(admin, now_ms, _LONG_MS))[:_MOST_TRANSACTIONS]:
        found.append(_long_open(row) if meaning_of(row["state"]).has_timeout else _long_decided(row))
    return found or [Finding("transactions", "ok", "none hangs, and none is open for long")]


def _long_open(row: dict[str, Any]) -> Finding:
    is_overdue = row["duration_ms"] > row["timeout_ms"]
    timeout = f"its timeout is {row['timeout_ms'] // 1000} s{', which has passed' if is_overdue else ''}"
    if row["timeout_ms"] == NO_TIMEOUT_MS:
        timeout = "a two-phase commit, which has no timeout: its owner ends it"
    detail = f"{row['transactional_id']} is open for {row['duration_ms'] // 1000} s in {_some(row['partitions'])}"
    advice = f"read_committed readers wait there; `oncelog txn fence {quote(row['transactional_id'])}` ends it"
    return Finding("transactions", "wrong" if is_overdue else "look", f"{detail} ({timeout}): {advice}")


def _long_decided(row: dict[str, Any]) -> Finding:
    """Return the finding of a long decided transaction. No response says when it was decided; if it began before its
    timeout and a while, then a while ago at least."""
    is_stuck = row["duration_ms"] > row["timeout_ms"] + _LONG_MS
    meaning = row["meaning"][0].lower() + row["meaning"][1:]
    detail = f"{row['transactional_id']}, begun {row['duration_ms'] // 1000} s ago, is {meaning}"
    advice = (
        "read_committed readers wait there, and neither its timeout nor a fence ends it, but its coordinator, which "
        "repeats the markers: look at the leaders of these partitions"
    )
    return Finding("transactions", "wrong" if is_stuck else "look", f"{detail}: {advice}")


async def _clocks(admin: "Admin") -> list[Finding]:
    from oncelog.client.values.records import TopicPartition

    places = [
        TopicPartition(each.name, part.partition)
        for each in await admin.describe_topics()
        for part in each.partitions
        if not each.is_internal and part.leader >= 0
    ][:_MOST_PARTITIONS]
    newest = await admin.list_offsets(places, "max_timestamp")
    now_ms = time.time_ns() // 1_000_000
    ahead = {place: found.timestamp_ms - now_ms for place, found in newest.items()}
    early = [f"{place.topic}-{place.partition}" for place in places if ahead[place] > _AHEAD_MS]
    if early:
        most_s = max(ahead.values()) // 1000
        advice = "a producer's clock is ahead (or this one behind): retention by time keeps such records longer"
        return [Finding("clocks", "look", f"records up to {most_s} s in the future in {_some(early)}: {advice}")]
    return [Finding("clocks", "ok", "no record is from the future")]


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


# --- the outbox -------------------------------------------------------------------------------------------------------


async def _of_outbox(dsn: str) -> list[Finding]:
    from oncelog.tools.outbox.feed import text_of
    from oncelog.tools.outbox.position import OutboxError
    from oncelog.tools.outbox.sql import database_error
    from oncelog.tools.outbox.status import troubles_of

    try:
        found = await troubles_of(dsn)
    except UnicodeEncodeError:
        return [Finding("outbox", "wrong", "this is no DSN: it has a character that is not in UTF-8")]
    except (OutboxError, database_error()) as error:
        return [Finding("outbox", "wrong", text_of(error))]
    return [Finding(*each) for each in found] or [
        Finding("outbox", "look", "none is installed there: `oncelog outbox install DSN`")
    ]


# --- the machine ------------------------------------------------------------------------------------------------------


def _of_machine(data_dir: Path) -> list[Finding]:
    try:
        return [_sync_speed(data_dir), _free_space(data_dir), *_open_files()]
    except OSError as error:
        return [Finding("disk", "wrong", f"{data_dir}: {error.strerror or error}")]


def _sync_speed(data_dir: Path) -> Finding:
    import os
    import tempfile

    times_ms = []
    with tempfile.TemporaryFile(dir=data_dir) as file:
        for _ in range(_SYNC_COUNT):
            begun_s = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            times_ms.append((time.perf_counter() - begun_s) * 1000)
    times_ms.sort()
    middle_ms, slowest_ms = times_ms[len(times_ms) // 2], times_ms[-1]
    detail = f"fsync takes {middle_ms:.2f} ms, at most {slowest_ms:.2f} ms of {_SYNC_COUNT} times"
    if middle_ms > _SLOW_SYNC_MS:
        advice = "each acknowledgement waits for one: use a faster disk, or oncelog.flush.policy=os (see configuration)"
        return Finding("disk", "look", f"{detail}; {advice}")
    return Finding("disk", "ok", detail)


def _free_space(data_dir: Path) -> Finding:
    import shutil

    usage = shutil.disk_usage(data_dir)
    return _space("disk space", str(data_dir), usage.total, usage.free)


def _open_files() -> Iterator[Finding]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft <= _FEW_OPEN_FILES:
        detail = f"a process may open {soft} (at most {hard}): `ulimit -n {hard}` before `oncelog serve` allows more"
        yield Finding("open files", "look", f"{detail} connections and segments")
    else:
        yield Finding("open files", "ok", f"a process may open {soft}")
