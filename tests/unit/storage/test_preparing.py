"""What a start says of a server: who may lose what that was acknowledged."""

import pytest

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
from oncelog.broker.storage.postgres.preparing import Found

SAID = {
    ("off", "on", "standby"): "a crash of its machine may lose anything",
    ("on", "off", "standby"): "a crash of PostgreSQL may lose what was acknowledged last",
    ("on", "local", "standby"): "on the disk of one PostgreSQL",
    ("on", "on", ""): "on the disk of one PostgreSQL",
    ("on", "remote_write", "standby"): "in the memory of its synchronous standbys (standby)",
    ("on", "on", "standby"): "on the disk of PostgreSQL and of its synchronous standbys (standby)",
    ("on", "remote_apply", "standby"): "on the disk of PostgreSQL and of its synchronous standbys (standby)",
}


@pytest.mark.parametrize(("fsync", "synchronous_commit", "standby_names"), SAID)
def test_it_promises_what_the_settings_do_and_no_more(fsync: str, synchronous_commit: str, standby_names: str) -> None:
    found = Found("18.0", 180000, fsync, synchronous_commit, standby_names, "records", "kafka", is_standby=False)
    assert SAID[fsync, synchronous_commit, standby_names] in found.promise
