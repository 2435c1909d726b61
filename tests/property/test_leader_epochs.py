"""The leader epochs of a log are those of its records, whatever the stops between its lives."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.log.leader_epochs import LeaderEpochs
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.storage.local.checkpoints import encode_leader_epochs
from tests.fakes.logs import Logs, batch

FILE = "topic-0/leader-epoch-checkpoint"
_STOPS = ("clean stop", "kill -9", "power cut")

lives = st.lists(
    st.tuples(
        st.lists(st.integers(1, 3), max_size=4),
        st.booleans(),
        st.integers(0, 6),
        st.sampled_from(_STOPS),
        st.integers(0, 2**16),
    ),
    min_size=1,
    max_size=7,
)
"""The lives of a log, each of: the record counts of its batches, whether they are flushed, where the log begins then,
how it ends.
"""
policies = st.sampled_from(["fsync", "os", "memory"])


def told_by_records(log: PartitionLog) -> LeaderEpochs:
    history = LeaderEpochs()
    for header, _ in log.batches():
        history.assign(header.partition_leader_epoch, max(header.base_offset, log.log_start_offset))
    history.assign(log.leader_epoch, log.log_end_offset)
    return history


@given(lives, policies, st.sampled_from([150, 10_000]))
def test_a_restart_finds_the_epochs_of_the_records_and_has_nothing_to_report(
    all_lives: list[tuple[list[int], bool, int, str, int]], policy: str, segment_bytes: int
) -> None:
    logs = Logs(policy=policy)
    for life, (counts, is_flushed, start, stop, seed) in enumerate(all_lives):
        log = logs.open(segment_bytes=segment_bytes)
        log.lead(2 * life)
        for count in counts:
            logs.append(log, batch(count))
        if is_flushed:
            logs.flush()
            if policy == "fsync" or stop != "power cut":  # which may take what the start of the log relies on
                logs.manager.delete_records(log, min(start, log.high_watermark))
        assert log.epochs.entries == told_by_records(log).entries
        if stop == "clean stop":
            logs.flush()
            logs = logs.stopped_cleanly()
        else:
            logs = logs.killed() if stop == "kill -9" else logs.crashed(seed)
        again = logs.open(segment_bytes=segment_bytes)
        if again.offline_error is not None:
            return  # torn segments that follow each other: where the journal is lost, they may have been durable
        again.lead(2 * life + 2)
        assert again.epochs.entries == told_by_records(again).entries
        assert not [line for report in logs.reports for line in report.lines if FILE in line]


@given(st.lists(st.integers(1, 3), min_size=2, max_size=5), st.data())
def test_a_file_that_a_batch_contradicts_is_reported_and_rewritten(counts: list[int], data: st.DataObject) -> None:
    logs = Logs()
    for life, count in enumerate(counts):
        log = logs.open(segment_bytes=100)
        log.lead(2 * life)
        for _ in range(count):
            logs.append(log, batch())
        logs.flush()
        logs = logs.killed()
    entries = log.epochs.entries
    content = logs.disk.files[FILE].data
    assert content == encode_leader_epochs(entries)
    # Of the last segment, which is read after kill -9.
    damage = data.draw(
        st.sampled_from(
            [
                None,
                b"",
                bytes(content[:-1]),
                encode_leader_epochs(entries[:-1]),
                encode_leader_epochs(((1, 0),)),
                encode_leader_epochs((*entries[:-1], (entries[-1][0] + 1, entries[-1][1]))),
            ]
        )
    )
    if damage is None:
        logs.disk.delete(FILE)
    else:
        content[:] = damage
    assert logs.open(segment_bytes=100).epochs.entries == entries
    assert logs.disk.files[FILE].data == encode_leader_epochs(entries)
    problem = "missing" if damage is None else "wrong"
    assert f"{FILE} is {problem}, it is rewritten" in logs.reports[0].lines
