"""What lies in a data directory: a start deletes, renames and serves nothing but partitions of its own."""

from itertools import count
from uuid import UUID

import pytest

from oncelog.broker.assembly.broker import StartError
from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.broker.storage.local.data_directory import DataDirectory
from oncelog.broker.storage.local.partition_directory import encode_partition_metadata, partition_of
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.batch import iter_batches
from oncelog.protocol.records.record import decode_records
from oncelog.testing.memory_disk import MemoryDisk, PowerCut
from tests.clients.administration import create, delete, grow, produce
from tests.fakes.broker import VirtualBroker
from tests.fakes.logs import read_records

METADATA = "partition.metadata"
SOME_ID = UUID(int=12345)


def stored(broker: VirtualBroker, topic: str, partition: int = 0) -> list[bytes | None] | ErrorCode:
    """The values of a partition, or why it cannot be read."""
    log = broker.broker.topics.find_partition(topic, partition)
    if log is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if log.offline_error is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    records = read_records(log, 0, 1 << 20, FetchIsolation.LOG_END).records
    return [record.value for _, batch in iter_batches(records) for record in decode_records(batch)]


def below(disk: MemoryDisk, *names: str) -> dict[str, bytes]:
    return {path: bytes(inode.data) for path, inode in disk.files.items() if path.startswith(names)}


def put(disk: MemoryDisk, path: str, data: bytes = b"precious") -> None:
    directory = path.rpartition("/")[0]
    for depth in range(directory.count("/") + 1) if directory else ():
        disk.make_dir("/".join(directory.split("/")[: depth + 1]))
    disk.open(path).append([data])


def copy(disk: MemoryDisk, old: str, new: str) -> None:
    disk.make_dir(new)
    for path, data in below(disk, f"{old}/").items():
        disk.open(path.replace(old, new, 1)).append([data])


def with_topics(*names: str) -> VirtualBroker:
    """One record in each topic: its name."""
    broker = VirtualBroker()
    for name in names:
        assert create(broker, name) is ErrorCode.NONE
        assert produce(broker, name, name.encode()) is ErrorCode.NONE
    return broker


FOREIGN = (
    "photos-2024/beach.jpg",
    "photos-02024/beach.jpg",
    "photos-\u0662/beach.jpg",
    "old-delete/thesis.tex",
    "-delete/thesis.tex",
    "orders-0.0123-delete/thesis.tex",
    f"orders-0.{SOME_ID.hex}-delete/thesis.tex",
    f"orders-00.{SOME_ID.hex}-delete/thesis.tex",
    "orders-0.1700000000000-stray/00000000000000000000.log",
    "orders-1/00000000000000000000.log",
    "other-0/00000000000000000000.log",
    "directory/within/file",
    "notes.txt",
    "orders-7",
)


def test_start_leaves_alone_what_is_not_its_own_and_says_so() -> None:
    broker = with_topics("orders")
    for path in FOREIGN:
        put(broker.disk, path)
    # A directory whose deletion seems to have begun, with a metadata file of another topic, or of one that is there.
    topic_id = broker.broker.topics.get("orders").topic_id  # type: ignore[union-attr]
    put(broker.disk, f"orders-1.{SOME_ID.hex}-delete/{METADATA}", encode_partition_metadata(UUID(int=1)))
    put(broker.disk, f"orders-1.{topic_id.hex}-delete/{METADATA}", encode_partition_metadata(topic_id))
    before = below(broker.disk, "photos", "old", "-", "orders", "other", "directory", "notes")
    broker = broker.killed()
    assert below(broker.disk, "photos", "old", "-", "orders", "other", "directory", "notes") == before
    (line,) = broker.lines
    assert "left as it is" in line and "'directory'" in line and " more" in line
    assert stored(broker, "orders") == [b"orders"]


def test_file_system_and_operators_may_leave_their_marks_without_a_word() -> None:
    disk = MemoryDisk()
    for path in ("lost+found/#123", ".gitkeep", ".snapshot/hourly/file"):
        put(disk, path)
    broker = VirtualBroker(disk=disk)
    assert broker.lines == broker.killed().lines == []


@pytest.mark.parametrize("path", ["beach.jpg", "photos-2024/beach.jpg", "orders-0/00000000000000000000.log"])
def test_first_start_refuses_a_directory_that_is_not_empty(path: str) -> None:
    disk = MemoryDisk()
    put(disk, path)
    with pytest.raises(StartError, match=f"neither empty nor .* {path.split('/')[0]!r}.*--data-dir"):
        VirtualBroker(disk=disk)
    assert set(disk.files) == {path}


def test_start_refuses_the_data_directory_of_a_kafka_broker() -> None:
    disk = MemoryDisk()
    put(disk, "meta.properties")
    put(disk, "__cluster_metadata-0/00000000000000000000.log")
    with pytest.raises(StartError, match=r"belongs to Apache Kafka .*meta\.properties.*--data-dir"):
        VirtualBroker(disk=disk)
    assert len(disk.files) == 2


@pytest.mark.parametrize("is_journal_lost", [False, True])
def test_start_without_the_metadata_log_leaves_partitions_alone(is_journal_lost: bool) -> None:
    broker = with_topics("orders")
    broker.disk.delete_tree("__cluster_metadata-0")
    if is_journal_lost:
        broker.disk.delete("flushed-offsets")
        broker.disk.make_dir("__cluster_metadata-0")
    before = below(broker.disk, "orders")
    disk = broker.disk.kill()
    with pytest.raises(StartError, match=r"metadata log is (gone|damaged)"):
        VirtualBroker(disk=disk)
    assert below(disk, "orders") == before


def test_partition_names_its_topic_as_kafka_does() -> None:
    broker = with_topics("orders")
    topic_id = broker.broker.topics.get("orders").topic_id  # type: ignore[union-attr]
    assert broker.disk.read_bytes(f"orders-0/{METADATA}") == encode_partition_metadata(topic_id)
    assert encode_partition_metadata(UUID("5e7a5b3f-0c4e-4a2f-9d3b-0123456789ab")) == (
        b"version: 0\ntopic_id: XnpbPwxOSi-dOwEjRWeJqw"
    )
    metadata = broker.disk.read_bytes(f"__cluster_metadata-0/{METADATA}")
    assert metadata == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


def test_directories_of_an_earlier_version_are_taken_over() -> None:
    broker = with_topics("orders", "payments")
    written = below(broker.disk, "orders", "payments")
    for path in [path for path in broker.disk.files if path.endswith(METADATA)]:
        broker.disk.delete(path)
    broker = broker.killed()
    assert (stored(broker, "orders"), stored(broker, "payments"), broker.lines) == ([b"orders"], [b"payments"], [])
    for path, data in written.items():
        if path.endswith(METADATA):
            assert broker.disk.read_bytes(path) == data


@pytest.mark.parametrize("data", [None, b"", b"version: 0\ntopic_", b"\x00" * 44, b"version: 0\ntopic_id: *\n", b"1"])
def test_damaged_metadata_of_a_partition_is_rewritten_and_logged(data: bytes | None) -> None:
    broker = with_topics("orders")
    path = f"orders-0/{METADATA}"
    written = broker.disk.read_bytes(path)
    broker.disk.delete(path)
    if data is not None:
        # One character of the id is another: no id of a topic is as near as that to another's.
        put(broker.disk, path, data if data != b"1" else written[:30] + bytes([written[30] ^ 1]) + written[31:])
    broker = broker.killed()
    assert [path in line and "rewritten" in line for line in broker.lines] == [True]
    assert stored(broker, "orders") == [b"orders"]
    assert broker.disk.read_bytes(path) == written


def test_directories_that_were_swapped_are_not_served_until_they_are_back() -> None:
    broker = with_topics("orders", "payments")

    def swap(disk: MemoryDisk) -> None:
        for old, new in (("orders-0", "x"), ("payments-0", "orders-0"), ("x", "payments-0")):
            disk.rename(old, new)

    swap(broker.disk)
    before = below(broker.disk, "orders", "payments")
    broker = broker.killed()
    for topic in ("orders", "payments"):
        assert stored(broker, topic) is ErrorCode.KAFKA_STORAGE_ERROR
        assert produce(broker, topic) is ErrorCode.KAFKA_STORAGE_ERROR
        assert any(f"{topic}-0 is offline" in line and "with id" in line for line in broker.lines)
    assert below(broker.disk, "orders", "payments") == before
    swap(broker.disk)
    broker = broker.killed()
    assert (stored(broker, "orders"), stored(broker, "payments"), broker.lines) == ([b"orders"], [b"payments"], [])


@pytest.mark.parametrize("is_journal_lost", [False, True])
def test_copy_under_the_name_of_another_topic_is_never_served(is_journal_lost: bool) -> None:
    broker = with_topics("orders")
    create(broker, "payments")
    copy(broker.disk, "orders-0", "payments-0")
    if is_journal_lost:  # then it is unknown whether payments had files of its own
        broker.disk.delete("flushed-offsets")
    broker = broker.killed()
    assert stored(broker, "orders") == [b"orders"]
    assert stored(broker, "payments") == (ErrorCode.KAFKA_STORAGE_ERROR if is_journal_lost else [])
    (name,) = [name for name in broker.disk.list_dir("") if name.startswith("payments-0")]
    assert name.endswith("-stray") is not is_journal_lost
    assert any("payments-0" in line and "the topic with id" in line for line in broker.lines)
    assert below(broker.disk, f"{name}/").keys() == {f"{name}/{path[9:]}" for path in below(broker.disk, "orders-0/")}


def test_directory_of_another_cluster_is_neither_served_nor_moved() -> None:
    """Its `partition.metadata` may be damaged instead: the broker cannot know."""
    broker = with_topics("orders")
    broker.disk.delete(f"orders-0/{METADATA}")
    put(broker.disk, f"orders-0/{METADATA}", encode_partition_metadata(UUID(int=2**100 - 1)))
    before = below(broker.disk, "orders")
    broker = broker.killed()
    assert stored(broker, "orders") is ErrorCode.KAFKA_STORAGE_ERROR
    assert below(broker.disk, "orders") == before


def test_backup_of_a_removed_topic_is_neither_deleted_nor_served_as_its_successor() -> None:
    broker = with_topics("orders")
    backup = below(broker.disk, "orders-0/")
    assert delete(broker, "orders") is ErrorCode.NONE
    for path, data in backup.items():
        put(broker.disk, path, data)
    broker = broker.killed()
    assert below(broker.disk, "orders-0/") == backup
    assert "'orders-0'" in broker.lines[-1]
    assert create(broker, "orders", 2) is ErrorCode.NONE
    broker = broker.killed()
    assert stored(broker, "orders") == []
    assert produce(broker, "orders", b"new") is ErrorCode.NONE
    assert stored(broker.killed(), "orders") == [b"new"]
    (stray,) = [name for name in broker.disk.list_dir("") if name.endswith("-stray")]
    assert sorted(below(broker.disk, f"{stray}/").values()) == sorted(backup.values())


def test_new_partitions_of_a_topic_do_not_take_what_lies_in_their_place() -> None:
    broker = with_topics("orders")
    copy(broker.disk, "orders-0", "orders-1")
    broker.disk.delete(f"orders-1/{METADATA}")
    broker = broker.killed()
    assert grow(broker, "orders", 2) is ErrorCode.NONE
    assert stored(broker.killed(), "orders", 1) == []


@pytest.mark.interpreted
def test_directory_in_the_way_that_cannot_be_renamed_costs_its_partition_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise PermissionError(13, "Permission denied")

    broker = with_topics("orders")
    create(broker, "payments")
    copy(broker.disk, "orders-0", "payments-0")
    with monkeypatch.context() as patch:
        patch.setattr(DataDirectory, "set_aside", refuse)
        assert produce(broker, "payments", b"own") is ErrorCode.KAFKA_STORAGE_ERROR
        assert produce(broker, "orders", b"another") is ErrorCode.NONE
    assert not broker.disk_failures
    assert produce(broker, "payments", b"own") is ErrorCode.NONE
    assert stored(broker, "payments") == [b"own"]


def test_directory_that_comes_while_the_broker_runs_is_not_served() -> None:
    broker = with_topics("orders")
    create(broker, "payments")
    copy(broker.disk, "orders-0", "payments-0")
    broker.disk.delete(f"payments-0/{METADATA}")
    assert produce(broker, "payments", b"own") is ErrorCode.NONE
    assert stored(broker, "payments") == [b"own"]
    assert "is renamed to" in broker.lines[-1]


def test_deletion_takes_no_directory_of_another_topic_along() -> None:
    broker = with_topics("orders", "payments")
    broker.disk.delete_tree("payments-0")
    broker.disk.rename("orders-0", "payments-0")
    broker = broker.killed()
    before = below(broker.disk, "payments-0/")
    assert delete(broker, "payments") is ErrorCode.NONE
    assert below(broker.disk, "payments-0/") == before


def life(broker: VirtualBroker, told: list[str]) -> None:
    """A topic is made, filled, removed, made again with more partitions, and filled again."""
    for number, partition_count in ((1, 1), (2, 2)):
        assert create(broker, "orders", partition_count) is ErrorCode.NONE
        told.append(f"created {number}")
        for partition in range(partition_count):
            assert produce(broker, "orders", b"%d" % number, partition) is ErrorCode.NONE
            told.append(f"stored {number} {partition}")
        if number == 1:
            told.append("removing 1")
            assert delete(broker, "orders") is ErrorCode.NONE
            told.append("removed 1")


def check_life(broker: VirtualBroker, told: list[str]) -> None:
    first, second = (stored(broker, "orders", partition) for partition in (0, 1))
    assert first in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [], [b"1"], [b"2"])
    assert second in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [], [b"2"])
    if "created 2" in told or "stored 2 0" in told:
        assert first == [b"2"] if "stored 2 0" in told else first in ([], [b"2"])
        assert second == [b"2"] if "stored 2 1" in told else second in ([], [b"2"])
    elif "removed 1" in told:
        assert first != [b"1"]
    elif "stored 1 0" in told and "removing 1" not in told:
        assert first == [b"1"]
    elif "created 1" in told and "removing 1" not in told:
        assert first in ([], [b"1"])


def left_behind(broker: VirtualBroker) -> list[str]:
    """Directories that no partition has."""
    topic = broker.broker.topics.get("orders")
    known = {("orders", index) for index in range(topic.partition_count)} if topic is not None else set()
    names = [name for name in broker.disk.list_dir("") if name.startswith("orders")]
    return [name for name in names if partition_of(name) not in known]


@pytest.mark.parametrize("stop", ["kill -9", "power cut"])
def test_stop_at_any_write_of_a_topics_life_leaves_no_directory_that_is_served_as_anothers(stop: str) -> None:
    for seed in count():
        broker, told = VirtualBroker(), list[str]()
        broker.disk.operations_left = seed
        try:
            life(broker, told)
        except PowerCut:
            broker = broker.killed() if stop == "kill -9" else broker.crashed(seed)
        else:
            assert seed > 30
            break
        check_life(broker, told)
        left = left_behind(broker)
        # After a power cut the journal may lag: what it does not know to be left of a removal is left, with a line.
        assert not left or stop == "power cut"
        broker = broker.killed()
        assert broker.lines == [f"left as it is, because it is not in the metadata log: {name!r}" for name in left]
        check_life(broker, told)
