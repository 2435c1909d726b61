"""Group commit: few rounds for many appends, and no answer before the sync."""

import errno
from random import Random

import pytest

from oncelog.protocol.errors import ErrorCode, KafkaError
from tests.fakes.logs import Logs, batch, segments_of


def test_appends_of_one_turn_share_a_round_and_a_lone_one_is_synced_on_the_loop() -> None:
    logs = Logs()
    log = logs.open()
    logs.append(log, batch())
    logs.flush()
    logs.scheduler.threads_run_at_once = False
    logs.append(log, batch())
    logs.scheduler.run()
    assert (logs.rounds.round_count, log.high_watermark) == (2, 2)
    for _ in range(10):
        logs.append(log, batch())
    logs.scheduler.run()
    assert (logs.rounds.round_count, log.high_watermark) == (3, 2)
    assert len(logs.scheduler.threads) == 1
    logs.scheduler.run_thread()
    logs.scheduler.run()
    assert (logs.rounds.round_count, log.high_watermark) == (3, 12)


def test_sixteen_writers_that_wait_need_fewer_than_half_as_many_rounds_as_appends() -> None:
    """Each writer appends again as soon as its last append is durable."""
    logs = Logs()
    partitions = [logs.open(index) for index in range(4)]
    left = [20] * 16
    done = 0

    def write(writer: int) -> None:
        nonlocal done
        if not left[writer]:
            done += 1
            return
        left[writer] -= 1
        log = partitions[writer % 4]
        appended = logs.append(log, batch())
        sync_count = logs.disk.sync_count

        def on_durable(_: object) -> None:
            assert logs.disk.sync_count > sync_count, "answered before a sync"
            assert log.high_watermark > appended.last_offset
            write(writer)

        log.when_durable(appended.last_offset + 1).then(on_durable)

    for writer in range(16):
        write(writer)
    logs.flush()
    assert done == 16
    assert logs.rounds.append_count == 320
    assert logs.rounds.round_count < 160


@pytest.mark.parametrize(("turns", "rounds"), [(2, 1), (17, 1), (18, 2)])
def test_appends_of_turns_that_follow_each_other_share_a_round_once_rounds_hold_several(
    turns: int, rounds: int
) -> None:
    """Pipelined requests of a client arrive like that; but a round waits for sixteen turns at most."""
    logs = Logs()
    log = logs.open()

    def append_in_each_turn(left: int) -> None:
        logs.append(log, batch())
        if left > 1:
            logs.scheduler.call_soon(lambda: append_in_each_turn(left - 1))

    logs.append(log, batch())
    logs.append(log, batch())
    logs.flush()
    before = logs.rounds.round_count
    append_in_each_turn(turns)
    logs.flush()
    assert logs.rounds.round_count - before == rounds
    assert log.high_watermark == 2 + turns


@pytest.mark.parametrize(("log_count", "empty_turns", "rounds"), [(1, 8, 1), (1, 9, 2), (2, 2, 2)])
def test_a_round_with_fewer_appends_than_those_before_waits_for_eight_turns_that_bring_none_if_all_are_of_one_log(
    log_count: int, empty_turns: int, rounds: int
) -> None:
    """A client with several requests in flight sends the next ones like that: not quite as fast as the loop turns."""
    logs = Logs()
    opened = [logs.open(partition=number) for number in range(log_count)]

    def append_to_all() -> None:
        for log in opened:
            logs.append(log, batch())

    def append_after(turns: int) -> None:
        if turns:
            logs.scheduler.call_soon(lambda: append_after(turns - 1))
        else:
            append_to_all()

    for _ in range(2):
        append_to_all()
        append_to_all()
        append_to_all()
        logs.flush()
    before = logs.rounds.round_count
    append_to_all()
    append_after(empty_turns + 1)
    logs.flush()
    assert logs.rounds.round_count - before == rounds
    assert all(log.high_watermark == 8 for log in opened)


def test_a_lone_append_waits_for_no_turn_once_rounds_hold_one() -> None:
    logs = Logs()
    log = logs.open()
    for count in (2, 1):
        for _ in range(count):
            logs.append(log, batch())
        logs.flush()
    before = logs.disk.sync_count
    logs.append(log, batch())
    logs.scheduler.run_one()
    assert (logs.disk.sync_count, log.high_watermark) == (before + 1, 4)


def test_append_during_a_round_waits_for_the_next() -> None:
    logs = Logs()
    log = logs.open()
    logs.scheduler.threads_run_at_once = False
    logs.append(log, batch())
    logs.append(log, batch())
    logs.scheduler.run()
    function, done = logs.scheduler.threads.pop()
    function()  # the syncs have happened, the loop does not know yet
    late = logs.append(log, batch())
    waiting = log.when_durable(late.last_offset + 1)
    done(None)
    assert log.high_watermark == 2
    assert not waiting.done
    logs.scheduler.run()
    assert waiting.done


def test_all_logs_of_a_round_move_before_any_waiter_is_notified() -> None:
    logs = Logs()
    first, second = logs.open(0), logs.open(1)
    seen: list[int] = []
    logs.append(first, batch())
    logs.append(second, batch())
    first.when_durable(1).then(lambda _: seen.append(second.high_watermark))
    logs.flush()
    assert seen == [1]


@pytest.mark.parametrize("count", [1, 2])
def test_failed_sync_acknowledges_nothing_ever_again(count: int) -> None:
    logs = Logs()
    log = logs.open()
    logs.serve()
    logs.disk.sync_error = OSError(errno.EIO, "Input/output error")
    for _ in range(count):
        logs.append(log, batch())
    waiting = log.when_durable(1)
    logs.flush()
    logs.disk.sync_error = None
    assert [error.errno for error in logs.failures] == [errno.EIO]
    with pytest.raises(KafkaError) as refused:
        logs.append(log, batch())
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    logs.flush()
    logs.manager.close()
    assert not waiting.done
    assert log.high_watermark == 0
    assert logs.rounds.round_count == 1
    assert ".kafka_cleanshutdown" not in logs.disk.files


def test_failed_sync_of_one_log_moves_no_other_either() -> None:
    logs = Logs()
    first, second = logs.open(0), logs.open(1)
    logs.append(first, batch())
    logs.append(second, batch())
    logs.scheduler.threads_run_at_once = False
    logs.scheduler.run()
    logs.disk.sync_error = OSError(errno.EIO, "Input/output error")
    logs.scheduler.run_thread()
    logs.disk.sync_error = None
    logs.scheduler.run()
    assert len(logs.failures) == 1
    assert (first.high_watermark, second.high_watermark) == (0, 0)


@pytest.mark.parametrize("policy", ["fsync", "os"])
@pytest.mark.parametrize("appends", [1, 2], ids=["on the loop", "in a thread"])
def test_round_that_finds_no_descriptor_is_repeated_until_there_is_one(policy: str, appends: int) -> None:
    """Nothing was synced, so nothing is lost: the answer waits, and the broker lives."""
    logs = Logs(policy=policy)
    log = logs.open()
    logs.serve()
    before = logs.disk.sync_count
    for _ in range(appends):
        logs.append(log, batch())
    waiting = log.when_durable(appends)
    logs.disk.lacks_descriptor = lambda path: True
    logs.flush()
    for _ in range(3):
        logs.scheduler.run_timers()
        logs.flush()
    assert logs.failures == []
    assert logs.rounds.is_busy
    assert waiting.done is (policy == "os")
    assert logs.disk.sync_count == before
    logs.disk.lacks_descriptor = lambda path: False
    logs.scheduler.run_timers()
    logs.flush()
    assert waiting.done
    assert not logs.rounds.is_busy
    assert log.high_watermark == appends
    if policy == "os":
        assert logs.disk.crash(Random(1)).list_dir("topic-0"), "the directory of a new partition is durable"
    else:
        assert logs.crashed(1).open().log_end_offset == appends


def test_clean_stop_that_finds_no_descriptor_is_no_clean_stop() -> None:
    logs = Logs()
    logs.append(logs.open(), batch())
    logs.disk.lacks_descriptor = lambda path: True
    problem = logs.manager.close()
    assert problem is not None
    assert problem.errno == errno.EMFILE
    assert ".kafka_cleanshutdown" not in logs.disk.files


def test_os_policy_syncs_completed_segments_behind() -> None:
    """Recovery need not read the completed segments; the active one is left to the kernel."""
    logs = Logs(policy="os")
    log = logs.open(segment_bytes=200)
    for _ in range(6):
        logs.append(log, batch(2))
    logs.flush()
    files = logs.disk.files
    for segment in segments_of(log):
        inode = files[segment.path(".log")]
        is_active = segment is segments_of(log).active
        assert (inode.synced == bytes(inode.data)) is not is_active


@pytest.mark.parametrize("partition_count", [1, 10, 50])
def test_round_is_one_write_and_a_checkpoint_syncs_each_dirty_file_once(partition_count: int) -> None:
    logs = Logs(journal_file_bytes=1_000_000)
    partitions = [logs.open(index) for index in range(partition_count)]
    for log in partitions:
        logs.append(log, batch())
    logs.flush()
    logs.store.file_sync.begin_checkpoint()
    logs.flush()
    before, rounds = len(logs.disk.operations), logs.rounds.round_count
    for _ in range(3):
        for log in partitions:
            logs.append(log, batch())
    logs.flush()
    assert logs.rounds.round_count == rounds + 1
    assert [kind for kind, _ in logs.disk.operations[before:] if kind != "append"] == ["write_durably"]
    before = len(logs.disk.operations)
    logs.store.file_sync.begin_checkpoint()
    logs.flush()
    synced = [path for kind, path in logs.disk.operations[before:] if kind.startswith("sync")]
    assert synced == [*(segments_of(log)[-1].path(".log") for log in partitions), "flushed-offsets"]


def test_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="fsync, os, memory"):
        Logs(policy="always")


def test_flusher_is_busy_until_nothing_waits_for_a_sync() -> None:
    for policy in ("fsync", "os"):
        logs = Logs(policy=policy)
        log = logs.open()
        logs.serve()
        assert not logs.rounds.is_busy
        logs.append(log, batch())
        logs.append(log, batch())
        assert logs.rounds.is_busy
        logs.scheduler.threads_run_at_once = False
        logs.scheduler.run()
        assert logs.rounds.is_busy
        logs.scheduler.run_thread()
        assert logs.rounds.is_busy
        logs.scheduler.run()
        assert not logs.rounds.is_busy


def test_what_a_late_timer_appends_after_a_clean_stop_is_refused() -> None:
    logs = Logs()
    log = logs.open()
    logs.append(log, batch())
    logs.flush()
    assert logs.manager.close() is None
    written = bytes(logs.disk.files["topic-0/00000000000000000000.log"].data)
    with pytest.raises(KafkaError, match="the broker is stopping"):
        logs.append(log, batch())
    assert not logs.scheduler.queue
    assert not logs.failures, "it is no failure of the disk"
    assert bytes(logs.disk.files["topic-0/00000000000000000000.log"].data) == written
