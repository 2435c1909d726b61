"""What a start finds after each kind of stop and damage, and what it reports."""

import errno
from collections.abc import Callable
from uuid import UUID

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.storage.producer_snapshot import encode_snapshot
from oncelog.broker.turns.slices import at_once
from oncelog.protocol.errors import ErrorCode, KafkaError
from tests.fakes.logs import TOPIC_ID, Logs, batch, read_records, segments_of

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=50)
Stop = Callable[[Logs], Logs]
STOPS = {"clean": Logs.stopped_cleanly, "kill": Logs.killed}


def filled() -> Logs:
    """Four or more segments, an aborted transaction in the second, a producer whose last five batches are known."""
    logs = Logs(config=SMALL)
    log = logs.open()
    for sequence in range(6):
        logs.append(log, batch(1, producer_id=1, base_sequence=sequence))
    logs.append(log, batch(1, producer_id=2, base_sequence=0, transactional=True))
    logs.end_transaction(log, 2, committed=False)
    for sequence in range(6, 16):
        logs.append(log, batch(1, producer_id=1, base_sequence=sequence))
    logs.flush()
    assert len(segments_of(log)) >= 4
    return logs


def contents(log: PartitionLog) -> list[bytes]:
    return [bytes(data) for _, data in log.batches()]


def logs_of(logs: Logs, suffix: str) -> list[str]:
    return [path for path in sorted(logs.disk.files) if path.startswith("topic-0/") and path.endswith(suffix)]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot", ".batches", "segment-manifest"])
@pytest.mark.parametrize("damage", ["delete", "cut", "random", "empty"])
def test_every_file_beside_the_log_can_be_rebuilt(stop: str, suffix: str, damage: str) -> None:
    """No aborted record shows, no record is lost, every retry is recognised, also after a clean stop."""
    logs = filled()
    live = logs.open()
    wanted = contents(live)
    state = encode_snapshot(live.producer_state)
    logs = STOPS[stop](logs)
    for path in logs_of(logs, suffix):
        data = logs.disk.files[path].data
        if damage == "delete":
            del logs.disk.files[path]
        elif damage == "cut":
            del data[min(13, len(data) // 2) :]
        elif damage == "random":
            data[:] = bytes(index * 37 % 256 for index in range(64))
        else:
            data.clear()
    log = logs.open()
    assert log.offline_error is None
    assert contents(log) == wanted
    assert encode_snapshot(log.producer_state) == state
    told = read_records(log, 6, 10**6, FetchIsolation.TXN_COMMITTED).aborted_transactions
    assert told is not None
    assert [(entry.producer_id, entry.first_offset) for entry in told] == [(2, 6)]
    for sequence in range(11, 16):
        assert logs.append(log, batch(1, producer_id=1, base_sequence=sequence)).duplicate


def test_clean_stop_leaves_nothing_to_scan_or_report() -> None:
    logs = filled().stopped_cleanly()
    assert logs.store.was_clean
    log = logs.open()
    assert logs.reports == []
    assert all(segment.size_bytes for segment in segments_of(log))
    assert logs.disk.files["recovery-point-offset-checkpoint"].data == b"0\n1\ntopic 0 18\n"
    assert not logs.killed().store.was_clean
    assert all(inode.synced == bytes(inode.data) for inode in logs.disk.files.values())


def test_rebuilt_index_is_reported_with_its_file() -> None:
    logs = filled().stopped_cleanly()
    (path,) = logs_of(logs, ".txnindex")
    del logs.disk.files[path]
    logs.open()
    (report,) = logs.reports
    assert report.lines == (f"{path} is missing, the segment's indexes are rebuilt",)
    assert report.scanned_bytes > 0
    again = logs.killed()
    again.open()
    assert not any("missing" in line for report in again.reports for line in report.lines)


@pytest.mark.parametrize("tail", [bytes(4096), b"\xa7" * 100, b"\0"])
def test_torn_tail_above_the_durable_end_is_cut_and_reported(tail: bytes) -> None:
    logs = filled()
    wanted = contents(logs.open())
    path = logs_of(logs, ".log")[-1]
    logs.disk.files[path].data += tail
    logs = logs.killed()
    log = logs.open()
    assert contents(log) == wanted
    (report,) = logs.reports
    assert report.cut_bytes == len(tail)
    assert "offset 18" in report.lines[0]
    assert f"{len(tail)} bytes that were never durable" in report.lines[0]
    logs.append(log, batch())
    logs.flush()
    assert logs.killed().open().log_end_offset == 19


@pytest.mark.parametrize("cut", [1, 7, 78])
def test_unacknowledged_batch_that_is_torn_is_cut(cut: int) -> None:
    logs = filled()
    wanted = contents(logs.open())
    logs.append(logs.open(), batch())
    path = logs_of(logs, ".log")[-1]
    del logs.disk.files[path].data[-min(cut, len(batch())) :]
    assert contents(logs.killed().open()) == wanted


def offline(logs: Logs) -> str:
    before = {path: bytes(logs.disk.files[path].data) for path in logs_of(logs, ".log")}
    log = logs.open()
    after = {path: bytes(logs.disk.files[path].data) for path in logs_of(logs, ".log")}
    assert after == before, "what is left must stay for a person to look at"
    assert log.offline_error is not None
    assert log.offline_error in logs.reports[0].lines
    for call in (
        lambda: read_records(log, 0, 1, FetchIsolation.LOG_END),
        lambda: logs.append(log, batch()),
        log.batches,
        log.offset_of_max_timestamp,
    ):
        with pytest.raises(KafkaError) as refused:
            call()
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    return log.offline_error


def test_damage_below_the_durable_end_takes_the_partition_offline_with_the_place() -> None:
    logs = filled()
    path = logs_of(logs, ".log")[-1]
    del logs.disk.files[path].data[-7:]
    assert f"{path} at position" in offline(logs.killed())
    logs = filled()
    path = logs_of(logs, ".log")[-1]
    logs.disk.files[path].data[-1] ^= 1
    assert "checksum" in offline(logs.killed())


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("slot", [0, 1, -1])
def test_missing_segment_takes_the_partition_offline(stop: str, slot: int) -> None:
    logs = STOPS[stop](filled())
    del logs.disk.files[logs_of(logs, ".log")[slot]]
    offline(logs)


@pytest.mark.parametrize("stop", STOPS)
def test_all_files_gone_takes_the_partition_offline(stop: str) -> None:
    logs = STOPS[stop](filled())
    for path in [path for path in logs.disk.files if path.startswith("topic-0/")]:
        del logs.disk.files[path]
    logs.disk.directories.discard("topic-0")
    assert "no segment file is left" in offline(logs)


def test_offline_partition_leaves_the_others_and_stays_so() -> None:
    logs = filled()
    other = logs.open(1)
    logs.append(other, batch(2))
    logs.flush()
    del logs.disk.files[logs_of(logs, ".log")[1]]
    logs = logs.killed()
    offline(logs)
    assert logs.open(1).log_end_offset == 2
    again = logs.stopped_cleanly()
    offline(again)


@pytest.mark.parametrize("damage", ["delete", "random"])
def test_without_the_journal_only_the_last_segment_may_be_cut(damage: str) -> None:
    logs = filled()
    first = logs_of(logs, ".log")[0]
    logs.clock.time_ms += 10_000
    logs.manager.step()  # a checkpoint: only the segments have the first records
    logs.flush()
    for change in ("", first):
        again = logs.killed()
        if damage == "delete":
            del again.disk.files["flushed-offsets"]
        else:
            again.disk.files["flushed-offsets"].data[:] = bytes(range(200))
        again = again.killed()
        if change:
            again.disk.files[change].data[-1] ^= 1
            offline(again)
        else:
            assert again.open().log_end_offset == 18


@pytest.mark.parametrize("position", range(8))
def test_wrong_base_offset_is_no_gap_of_compaction(position: int) -> None:
    """No checksum covers the base offset, and a compacted log may lack offsets, but it has no offset twice."""
    logs = Logs(config=LogConfig(segment_bytes=400, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0))
    log = logs.open()
    for number in range(20):
        logs.append(log, batch(key=b"%d" % number))
    logs.flush()
    assert logs.compact() > 0
    segment = segments_of(log)[0]
    *_, last = segment.spans()
    logs = logs.killed()
    del logs.disk.files["topic-0/segment-manifest"]
    logs.disk.files[segment.path(".log")].data[last.position + position] ^= 0x40
    assert segment.path(".log") in offline(logs)


def test_snapshot_from_the_future_is_dropped() -> None:
    logs = filled()
    state = encode_snapshot(logs.open().producer_state)
    newest = logs_of(logs, ".snapshot")[-1]
    logs.disk.files["topic-0/00000000000000009999.snapshot"] = logs.disk.files[newest]
    logs = logs.killed()
    assert encode_snapshot(logs.open().producer_state) == state
    assert "topic-0/00000000000000009999.snapshot" not in logs.disk.files


@pytest.mark.parametrize("stop", STOPS)
def test_whole_snapshot_of_another_partition_is_not_believed(stop: str) -> None:
    """Its own checksum is right; the manifest remembers another one."""
    logs = filled()
    other = logs.open(1)
    logs.append(other, batch(1, producer_id=1, base_sequence=100))
    foreign = encode_snapshot(other.producer_state)
    logs.flush()
    state = encode_snapshot(logs.open().producer_state)
    logs = STOPS[stop](logs)
    newest = logs_of(logs, ".snapshot")[-1]
    logs.disk.files[newest].data[:] = foreign.rows
    log = logs.open()
    assert encode_snapshot(log.producer_state) == state
    assert f"{newest} is not used: it does not match the manifest" in logs.reports[0].lines


@pytest.mark.parametrize("stop", STOPS)
def test_whole_file_of_batches_of_another_snapshot_is_not_believed(stop: str) -> None:
    logs = filled()
    state = encode_snapshot(logs.open().producer_state)
    logs = STOPS[stop](logs)
    oldest, *_, newest = logs_of(logs, ".batches")
    logs.disk.files[newest].data[:] = logs.disk.files[oldest].data
    log = logs.open()
    assert encode_snapshot(log.producer_state) == state
    assert any(line.startswith(f"{newest} is not used: it belongs to another") for line in logs.reports[0].lines)


def test_without_its_batches_a_snapshot_still_has_producers_whose_segments_are_gone() -> None:
    """One batch of each, as Apache Kafka's does: what they wrote is deleted, and nothing else knows."""
    logs = filled()
    log = logs.open()
    logs.append(log, batch(1, producer_id=77, base_sequence=0))
    for sequence in range(16, 26):
        logs.append(log, batch(1, producer_id=1, base_sequence=sequence))
    logs.flush()
    logs.delete_records(log, log.log_end_offset)
    logs.flush()
    state = log.producer_state.producer(77)
    assert state is not None
    logs = logs.stopped_cleanly()
    assert len(logs_of(logs, ".log")) == 1
    for path in logs_of(logs, ".batches"):
        del logs.disk.files[path]
    again = logs.open().producer_state.producer(77)
    assert again is not None
    assert (again.batches, again.producer_epoch) == (state.batches, state.producer_epoch)


@pytest.mark.parametrize("stop", STOPS)
def test_deletion_that_got_no_further_than_a_snapshot_takes_no_batches_from_those_after_it(stop: str) -> None:
    """The rest of the first segment knows less of producers than the snapshot behind it."""
    logs = Logs(config=SMALL)
    log = logs.open()
    logs.append(log, batch(1, producer_id=77, base_sequence=0))
    for sequence in range(16):
        logs.append(log, batch(1, producer_id=1, base_sequence=sequence))
    logs.flush()
    second, third = segments_of(log)[1].base_offset, segments_of(log)[2].base_offset
    logs.delete_records(log, second)
    logs.flush()
    left = bytes(logs.disk.files[segments_of(log)[0].path(".log")].data)
    logs.delete_records(log, third)
    logs.flush()
    state = encode_snapshot(log.producer_state)
    logs = STOPS[stop](logs)
    logs.disk.open(f"topic-0/{second:020d}.log").append([left])
    logs.disk.delete("topic-0/segment-manifest")
    assert encode_snapshot(logs.open().producer_state) == state


def test_missing_snapshot_is_reported_once() -> None:
    logs = filled().stopped_cleanly()
    missing = logs_of(logs, ".snapshot")
    for path in missing + logs_of(logs, ".batches"):
        del logs.disk.files[path]
    logs.open()
    assert [line.split()[0] for line in logs.reports[0].lines] == missing
    logs = logs.stopped_cleanly()
    logs.open()
    assert logs.reports == []


@pytest.mark.parametrize("damage", [None, b"", b"0\n1\n7 0\n"])
def test_leader_epochs_are_kafkas_and_rewritten_where_they_are_not(damage: bytes | None) -> None:
    logs = filled().killed()
    path = "topic-0/leader-epoch-checkpoint"
    assert logs.disk.files[path].data == b"0\n1\n0 0\n"
    if damage is None:
        logs.disk.delete(path)
    else:
        logs.disk.files[path].data[:] = damage
    logs.open()
    assert logs.disk.files[path].data == b"0\n1\n0 0\n"
    assert [line for line in logs.reports[0].lines if "rewritten" in line] == [
        f"{path} is {'missing' if damage is None else 'wrong'}, it is rewritten"
    ]


def test_topic_made_again_under_an_old_name_inherits_nothing() -> None:
    logs = filled()
    logs.delete()
    logs.flush()
    logs = logs.killed()
    log = at_once(logs.manager.open("topic", 0, UUID(int=78), logs.config))
    assert (log.log_end_offset, log.offline_error) == (0, None)
    logs.append(log, batch())
    logs.flush()
    again = logs.killed()
    assert at_once(again.manager.open("topic", 0, UUID(int=78), logs.config)).log_end_offset == 1


def test_half_deleted_partition_is_gone_after_the_next_start() -> None:
    logs = filled()
    logs.disk.rename("topic-0", f"topic-0.{TOPIC_ID.hex}-delete")
    logs = logs.killed()
    assert len(logs.store.directory.finish_removals({TOPIC_ID: "topic"}, {})) == 1
    assert [path for path in logs.disk.files if path.startswith("topic-0")] == []


def test_hundred_empty_partitions_touch_no_file() -> None:
    logs = Logs()
    before = len(logs.disk.operations)
    for partition in range(100):
        logs.open(partition)
    assert len(logs.disk.operations) == before


def test_crashes_over_and_over_give_what_one_recovery_gives() -> None:
    logs = filled()
    wanted, state = contents(logs.open()), encode_snapshot(logs.open().producer_state)
    for seed in range(20):
        logs = logs.crashed(seed)
        assert contents(logs.open()) == wanted
        assert encode_snapshot(logs.open().producer_state) == state


def test_damage_is_distinguished_from_a_torn_tail_after_a_power_cut_as_well() -> None:
    """After a checkpoint only the segments have the records."""
    for seed in range(20):
        logs = filled()
        logs.clock.time_ms += 10_000
        logs.manager.step()
        logs.flush()
        path = logs_of(logs, ".log")[-1]
        logs = logs.crashed(seed)
        logs.disk.files[path].data[-1] ^= 1
        assert f"{path} at position" in offline(logs.killed())


def test_checkpoint_that_cannot_be_synced_fails_the_disk() -> None:
    logs = filled()
    logs.append(logs.open(), batch())
    logs.flush()
    logs.clock.time_ms += 10_000
    logs.disk.sync_error = OSError(errno.EIO, "Input/output error")
    logs.manager.step()
    logs.flush()
    assert [error.errno for error in logs.failures] == [errno.EIO]


def test_full_disk_makes_a_stop_unclean_but_loses_nothing() -> None:
    logs = filled()
    wanted = contents(logs.open())
    logs.append(logs.open(), batch())
    logs.disk.capacity_bytes = logs.disk.used_bytes
    assert isinstance(logs.manager.close(), OSError)
    logs = logs.killed()
    assert not logs.store.was_clean
    assert contents(logs.open())[:-1] == wanted


def test_snapshots_of_earlier_clean_stops_do_not_pile_up() -> None:
    logs = filled()
    for _ in range(3):
        log = logs.open()
        logs.append(log, batch(1, timestamp=1))
        logs = logs.stopped_cleanly()
    log = logs.open()
    assert {int(path[8:28]) for path in logs_of(logs, ".snapshot")} - {log.log_end_offset} <= {
        segment.base_offset for segment in segments_of(log)
    }


def test_indexes_of_a_segment_that_was_cut_and_grew_again_are_not_believed() -> None:
    """The power goes after a roll that was never durable: the indexes survive, the log does not, and its next life has
    the same size and another outcome."""
    logs = Logs(policy="os")
    log = logs.open(segment_bytes=200)
    logs.append(log, batch(1, producer_id=1, base_sequence=0, transactional=True))
    logs.end_transaction(log, 1, committed=False)
    logs.append(log, batch(3))
    assert len(segments_of(log)) == 2
    first, second = logs_of(logs, ".log")
    del logs.disk.files[second]
    del logs.disk.files[first].data[len(batch()) :]
    for _ in range(2):
        logs = logs.killed()
        log = logs.open(segment_bytes=200)
        assert log.offline_error is None
        if log.log_end_offset == 1:
            logs.end_transaction(log, 1, committed=True)
            logs.flush()
    assert log.log_end_offset == 2
    assert read_records(log, 0, 1000, FetchIsolation.TXN_COMMITTED).aborted_transactions == ()


def three_segments_of_two_producers() -> tuple[Logs, list[int]]:
    """Logs with three segments, and the segments' base offsets."""
    logs = Logs()
    log = logs.open(segment_bytes=150)
    for sequence in range(6):
        logs.append(log, batch(producer_id=1 + sequence // 3, base_sequence=sequence % 3))
        logs.flush()
    return logs, [segment.base_offset for segment in segments_of(log)]


def test_after_a_failed_sync_of_the_snapshot_the_log_below_it_stays() -> None:
    """It would be the only source of the producers, and what the failed sync has left of it is unknown."""
    logs, bases = three_segments_of_two_producers()
    logs = logs.killed()
    log = logs.open(segment_bytes=150)
    logs.serve()
    logs.delete_records(log, bases[-1])
    logs.disk.sync_error = OSError(errno.EIO, "Input/output error")
    logs.store.file_sync.begin_checkpoint()
    logs.flush()
    assert logs.failures
    assert [base for base in bases if logs.disk.exists(f"topic-0/{base:020d}.log")] == bases


def test_lost_flushed_offsets_and_directories_are_noticed_by_the_journal() -> None:
    logs = Logs()
    logs.append(logs.open(), batch())
    logs.flush()
    logs = logs.killed()
    for path in [path for path in logs.disk.files if not path.startswith("journal.")]:
        logs.disk.delete(path)
    logs.disk.delete_tree("topic-0")
    again = Logs(logs.disk)
    assert again.open().log_end_offset == 0
    assert again.store.problems == ["flushed-offsets is missing: a log may lack what was committed last"]


def test_snapshot_that_an_earlier_start_has_rebuilt_is_durable_before_the_log_below_it_goes() -> None:
    """The start that rebuilt it was killed before anything synced it; then power goes after a retention."""
    for seed in range(20):
        logs, bases = three_segments_of_two_producers()
        logs = logs.killed()
        for path in [path for path in logs.disk.files if path.endswith((".snapshot", ".batches"))]:
            logs.disk.delete(path)
        logs.disk.make_durable()
        logs = logs.killed()
        logs.open(segment_bytes=150)  # writes the snapshots again, and is killed
        logs = logs.killed()
        log = logs.open(segment_bytes=150)
        logs.delete_records(log, bases[-1])
        logs.flush()
        logs.apply_retention(logs.clock.wall_ms())
        logs = logs.crashed(seed)
        log = logs.open(segment_bytes=150)
        assert [segment.base_offset for segment in segments_of(log)] == bases[-1:]
        assert sorted(producer.producer_id for producer in log.producer_state.producers()) == [1, 2]
