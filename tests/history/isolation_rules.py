"""I7 to I11, I26: what readers may see: committed transactions, whole, in order, and not before their commit."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from tests.history.events import Identity, Partition, Poll
from tests.history.facts import Facts


def i7_no_aborted_value_is_read(facts: Facts) -> Iterator[str]:
    """G1a."""
    for poll, offset, value, send in facts.seen(is_committed=True):
        if send is not None and send.transaction is not None:
            transaction = facts.transactions[send.transaction]
            if transaction.is_told_aborted or (transaction.is_aborted and not transaction.is_told_committed):
                yield f"{poll.reader} read {value!r} at {offset} of {poll.partition}, and {transaction.name} is aborted"


def i8_nothing_is_read_before_its_commit_was_asked(facts: Facts) -> Iterator[str]:
    """G1b, and the last stable offset: no reader goes beyond a transaction that is open all the while."""
    for poll, offset, value, send in facts.seen(is_committed=True):
        if send is None or send.transaction is None:
            continue
        if poll.transaction == send.transaction:
            yield f"{send.transaction} read its own {value!r}"
        asked_at = facts.transactions[send.transaction].first_commit_at
        if asked_at is None or poll.span.completed_at < asked_at:
            yield f"{poll.reader} read {value!r} at {offset} of {poll.partition} before the commit"
    yield from _beyond_what_is_open(facts)


def _committed_polls(facts: Facts) -> dict[Partition, list[Poll]]:
    """Group the polls of read_committed readers by partition, in the order in which they began."""
    polls: dict[Partition, list[Poll]] = defaultdict(list)
    for poll in sorted(facts.history.polls, key=lambda poll: poll.span.invoked_at):
        if poll.is_committed:
            polls[poll.partition].append(poll)
    return polls


def _beyond_what_is_open(facts: Facts) -> Iterator[str]:
    polls = _committed_polls(facts)
    for transaction in facts.transactions.values():
        asked_at = transaction.first_commit_at
        if not transaction.is_told_committed or asked_at is None:
            continue  # the coordinator may have ended it in the meantime
        for send in transaction.sends:
            if not send.span.is_ok:
                continue
            seen = polls.get(send.partition, [])
            for poll in seen[bisect_left(seen, send.span.completed_at, key=lambda poll: poll.span.invoked_at) :]:
                if poll.span.completed_at >= asked_at:
                    break
                if poll.next_offset > send.offset:
                    yield f"{poll.reader} is at {poll.next_offset} of {poll.partition}, beyond the open {send.value!r}"


def i9_a_transaction_is_there_whole_or_not_at_all(facts: Facts) -> Iterator[str]:
    """A torn commit."""
    values = {partition: set(view.values()) for partition, view in facts.final.items()}
    for transaction in facts.transactions.values():
        sends = {(send.partition, send.value) for send in transaction.sends if send.partition in values}
        there = {(partition, value) for partition, value in sends if value in values[partition]}
        if there and there != sends:
            yield f"{transaction.name}: {sorted(there)} without {sorted(sends - there)}"


def i10_no_cycle_of_reads(facts: Facts) -> Iterator[str]:
    """G1c: no transaction reads, through others or directly, what was written by one that has read from it."""
    reads: dict[str, set[str]] = defaultdict(set)
    for poll, _, _, send in facts.seen(is_committed=True):
        if poll.transaction is not None and send is not None and send.transaction not in (None, poll.transaction):
            reads[poll.transaction].add(str(send.transaction))
    done: set[str] = set()
    for start in reads:
        trail: list[str] = []
        waiting = [(start, iter(sorted(reads[start])))]
        trail.append(start)
        while waiting:
            following = next(waiting[-1][1], None)
            if following is None:
                waiting.pop()
                done.add(trail.pop())
            elif following in trail:
                yield " has read of ".join([*trail[trail.index(following) :], following])
                return
            elif following not in done and following in reads:
                trail.append(following)
                waiting.append((following, iter(sorted(reads[following]))))


def i11_readers_go_on_and_skip_nothing(facts: Facts) -> Iterator[str]:
    for (reader, partition, is_committed), polls in facts.readers.items():
        visible = sorted((facts.final if is_committed else facts.final_uncommitted).get(partition, {}))
        position = polls[0].from_offset
        for poll in polls:
            offsets = [offset for offset, _ in poll.records]
            if poll.from_offset != position:
                yield f"{reader} asked {partition} from {poll.from_offset}, and was at {position}"
            if offsets != sorted(set(offsets)) or any(not poll.from_offset <= o < poll.next_offset for o in offsets):
                yield f"{reader} got {offsets} of {partition} between {poll.from_offset} and {poll.next_offset}"
            wanted = visible[bisect_left(visible, poll.from_offset) : bisect_left(visible, poll.next_offset)]
            missing = sorted(set(wanted) - set(offsets))
            if missing and not poll.error:
                yield f"{reader} skipped {missing} of {partition}"
            position = poll.next_offset
    for partition, view in facts.final_uncommitted.items():
        missing = sorted(set(facts.final.get(partition, {})) - set(view))
        if missing:
            yield f"read_uncommitted lacks {missing} of {partition}"


def i26_the_markers_of_a_transaction_are_seen_together(facts: Facts) -> Iterator[str]:
    """A Fetch over several partitions sees it in all or in none. One that a partition was given later, since it could
    not be written at first, has another time."""
    markers: dict[tuple[Identity, int], dict[Partition, int]] = defaultdict(dict)
    for partition, batches in facts.history.logs.items():
        for batch in batches:
            if batch.marker is not None:
                markers[batch.identity, batch.timestamp_ms].setdefault(partition, batch.base_offset)
    for look in set(facts.history.looks):
        seen = dict(look.high_watermarks)
        for (identity, _), places in markers.items():
            there = {partition: at < seen[partition] for partition, at in places.items() if partition in seen}
            if len(set(there.values())) > 1:
                yield f"the markers of {identity} are there: {there}"
