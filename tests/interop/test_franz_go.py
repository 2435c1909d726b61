"""franz-go (kgo, kadm), unmodified, against the daemon: the scenes of tests/interop/go, which check every answer."""

import pytest

from tests.conftest import Start
from tests.support.foreign.interop import (
    GO_PROGRAM,
    QUICK_GROUPS,
    READ_OF_TRANSACTIONS,
    finished_while_killed,
    needs,
    run,
    unique,
)
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.interop


def play(scene: str, daemon: Daemon) -> list[str]:
    needs(GO_PROGRAM)
    return run([str(GO_PROGRAM), scene, daemon.bootstrap, unique(scene)]).splitlines()


def test_every_codec_is_read_back_in_order_with_keys_headers_and_null_values(daemon: Daemon) -> None:
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    assert play("records", daemon) == [f"{codec}: 2001 in order" for codec in codecs]


def test_only_committed_transactions_reach_read_committed(daemon: Daemon) -> None:
    assert play("transactions", daemon) == READ_OF_TRANSACTIONS


def test_a_fenced_producer_cannot_commit(daemon: Daemon) -> None:
    assert play("fencing", daemon) == ["fenced true", "read_committed successor"]


def test_members_share_by_every_balancer_and_one_takes_over(daemon: Daemon) -> None:
    assert play("group", daemon) == [
        "range: shared, taken over",
        "roundrobin: shared, taken over",
        "sticky: shared, taken over",
        "cooperative-sticky: nothing lost while taking over true",
        "cooperative-sticky: shared, taken over",
    ]


def test_members_share_what_the_broker_assigns_and_one_takes_over(start_daemon: Start) -> None:
    assert play("consumers", start_daemon(*QUICK_GROUPS)) == [
        "range: Stable by range, 3 members",
        "range: shared, taken over",
        "uniform: Stable by uniform, 3 members",
        "uniform: shared, taken over",
    ]


def test_a_group_continues_where_it_committed_and_a_static_member_stays(daemon: Daemon) -> None:
    assert play("resume", daemon) == ["from 0 to 3", "from 4 to 7", "static member stays: static"]


def test_sessions_transform_exactly_once_while_members_come_and_go(daemon: Daemon) -> None:
    assert play("transform", daemon) == ["loaded", "3000 records, each once; some transactions aborted: true"]


@pytest.mark.parametrize("scene", ["transform", "transform-consumers"], ids=["classic", "kip-848"])
def test_sessions_transform_exactly_once_while_the_broker_is_killed(start_daemon: Start, scene: str) -> None:
    needs(GO_PROGRAM)
    daemon = start_daemon(*QUICK_GROUPS)
    command = [str(GO_PROGRAM), scene, daemon.bootstrap, unique("killed")]
    assert finished_while_killed(command, daemon, pause_s=1) == [
        "3000 records, each once; some transactions aborted: true"
    ]


def test_admin_makes_changes_describes_and_deletes(daemon: Daemon) -> None:
    assert play("admin", daemon) == [
        "brokers: 1",
        "partitions: 3 topic id: true",
        "cleanup.policy=delete,compact from DYNAMIC_TOPIC_CONFIG",
        "max.message.bytes=65536 from DYNAMIC_TOPIC_CONFIG",
        "retention.ms=604800000 from DEFAULT_CONFIG",
        "offsets: 4 to 10",
        "committed: 7 lag: 3",
        "group: Empty",
        "log directory knows its size: true",
        "after deletion: true",
    ]


def test_an_open_transaction_is_found_and_described(daemon: Daemon) -> None:
    assert play("hanging", daemon) == [
        "listed: Ongoing described: Ongoing",
        "holds: true",
        "producer known: true open since: 0",
        "ended: true",
    ]
