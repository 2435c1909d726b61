"""Whatever is done to a `.log` file: what the survey does not call lost is there after the repair, byte for byte."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.storage.local.repair import repair_partition
from oncelog.broker.storage.local.survey import Survey, survey_partition
from oncelog.protocol.records.batch import iter_batches
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.testing.memory_disk import MemoryDisk, PowerCut
from tests.fakes.logs import Logs, read_records
from tests.property.test_log_recovery import (
    SMALL,
    Model,
    Replay,
    covered,
    damage_file,
    random_operation,
    run_operation,
)
from tests.support.samples import examples


def damaged(random: Random, is_clean: bool, batch_count: int = 30) -> tuple[Logs, Model]:
    logs = Logs(config=SMALL)
    log, model = logs.open(), Model()
    for _ in range(batch_count):
        run_operation(logs, log, model, random_operation(random))
    logs.flush()
    logs.store.file_sync.begin_checkpoint()  # nothing is left to put back from the journal
    logs.flush()
    logs = logs.stopped_cleanly() if is_clean else logs.killed()
    paths = [path for path in sorted(logs.disk.files) if path.startswith("topic-0/") and path.endswith(".log")]
    for path in random.sample(paths, min(len(paths), random.choice([1, 1, 2]))):
        damage_file(logs, path, random)
    logs.disk.make_durable()
    return logs, model


def surveyed(disk: MemoryDisk, model: Model) -> Survey:
    return survey_partition(disk, "topic-0", 0, model.log_end_offset, has_gaps=False)


def check_repaired(log: PartitionLog, model: Model, survey: Survey) -> None:
    lost = {offset for entry in survey.lost for offset in range(entry.first_offset, entry.next_offset)}
    assert log.offline_error is None
    assert log.log_end_offset == model.log_end_offset
    stored = {header.base_offset: covered(bytes(data)) for header, data in log.batches() if header.record_count}
    wanted = {
        base: covered(data) for base, next_offset, data in model.batches if not lost & set(range(base, next_offset))
    }
    assert stored == wanted
    for base, next_offset, _ in model.batches:
        assert len(lost & set(range(base, next_offset))) in (0, next_offset - base), "a batch is lost as a whole"


def visible(log: PartitionLog) -> set[int]:
    """The offsets that a read_committed reader gets when all aborted transactions are listed at once."""
    seen: set[int] = set()
    offset = 0
    while offset < log.last_stable_offset:
        result = read_records(log, offset, 100_000, FetchIsolation.TXN_COMMITTED)
        aborted = sorted((entry.first_offset, entry.producer_id) for entry in result.aborted_transactions or ())
        dropping: set[int] = set()
        for header, data in iter_batches(result.records):
            while aborted and aborted[0][0] <= header.base_offset:
                dropping.add(aborted.pop(0)[1])
            offset = header.next_offset
            if header.is_control:
                if decode_end_txn_marker(data)[0] is ControlRecordType.ABORT:
                    dropping.discard(header.producer_id)
            elif header.record_count and not (header.is_transactional and header.producer_id in dropping):
                seen |= set(range(header.base_offset, offset))
    return seen


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_what_is_not_lost_stays_and_no_aborted_record_shows(seed: int, is_clean: bool) -> None:
    random = Random(seed)
    logs, model = damaged(random, is_clean)
    survey = surveyed(logs.disk, model)
    repair_partition(logs.disk, survey)
    logs = logs.killed()
    log = logs.open()
    check_repaired(log, model, survey)
    committed = Replay.of(model).committed
    assert visible(log) <= committed
    again = logs.crashed(seed).open()
    check_repaired(again, model, survey)
    assert visible(again) <= committed


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_repair_may_be_cut_off_anywhere_and_done_again(seed: int, is_clean: bool) -> None:
    random = Random(seed)
    logs, model = damaged(random, is_clean, batch_count=12)
    survey = surveyed(logs.disk, model)
    before = {path: bytes(inode.data) for path, inode in logs.disk.files.items() if path.endswith(".log")}
    for cut_at in range(200):
        broken = logs.killed()
        broken.disk.operations_left = cut_at
        try:
            repair_partition(broken.disk, surveyed(broken.disk, model))
            break
        except PowerCut:
            again = broken.crashed(seed + cut_at)
            repair_partition(again.disk, surveyed(again.disk, model))
            for path, data in before.items():
                now = [bytes(inode.data) for name, inode in again.disk.files.items() if name.startswith(path)]
                assert data in now, "no byte is thrown away"
            log = again.killed().open()
            check_repaired(log, model, survey)
            assert visible(log) <= Replay.of(model).committed
