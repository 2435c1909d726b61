"""I15 to I19: what the coordinator and the partitions owe to producers: fences, epochs, one decision, no duplicates."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.history.events import End, Identity, Init, LogBatch, Partition, Send, SendOffset, Step
from tests.history.facts import Facts

MAX_SEQUENCE = 2**31 - 1
_STARTS = frozenset({"EMPTY", "ONGOING", "PREPARE_ABORT", "DEAD"})
"""An abort of nothing is logged too."""
NEXT = {
    "EMPTY": _STARTS,
    "ONGOING": frozenset({"ONGOING", "PREPARE_COMMIT", "PREPARE_ABORT", "PREPARE_EPOCH_FENCE"}),
    "PREPARE_EPOCH_FENCE": frozenset({"PREPARE_ABORT"}),
    "PREPARE_COMMIT": frozenset({"COMPLETE_COMMIT"}),
    "PREPARE_ABORT": frozenset({"COMPLETE_ABORT"}),
    "COMPLETE_COMMIT": _STARTS,
    "COMPLETE_ABORT": _STARTS,
}
"""Written down once more, apart from the broker's own table: the auditor believes nothing of what it judges."""


def i15_nobody_who_is_fenced_goes_on(facts: Facts) -> Iterator[str]:
    history = facts.history
    ids = {init.session: init.transactional_id for init in history.inits}
    inits: dict[str, list[Init]] = defaultdict(list)
    for init in history.inits:
        if init.span.is_ok:
            inits[init.transactional_id].append(init)
    visible = {(partition, value) for partition, view in facts.final.items() for value in view.values()}
    operations: list[Send | SendOffset | End] = [*history.sends, *history.send_offsets, *history.ends]
    for operation in operations:
        transactional_id = ids.get(operation.session)
        if transactional_id is None or operation.identity[0] < 0:
            continue
        fences = [
            init.identity
            for init in inits[transactional_id]
            if operation.identity < init.identity and init.span.precedes(operation.span)
        ]
        if not fences:
            continue
        what = f"{type(operation).__name__} by {operation.identity} of {transactional_id}, fenced by {max(fences)},"
        if operation.span.is_ok:
            yield f"{what} was answered as done"
        elif isinstance(operation, Send) and (operation.partition, operation.value) in visible:
            yield f"{what} is visible: {operation.value!r}"


def i16_epochs_rise_and_an_id_has_one_owner(facts: Facts) -> Iterator[str]:
    owners: dict[int, str] = {}
    newest: dict[str, list[Init]] = defaultdict(list)
    ids = {init.session: init.transactional_id for init in facts.history.inits}
    for init in sorted(facts.history.inits, key=lambda init: init.span.completed_at):
        if not init.span.is_ok:
            continue
        owner = owners.setdefault(init.identity[0], init.transactional_id)
        if owner != init.transactional_id:
            yield f"producer id {init.identity[0]} is {owner}'s and {init.transactional_id}'s"
        for before in newest[init.transactional_id]:
            if before.span.precedes(init.span) and before.identity >= init.identity:
                yield f"{init.transactional_id} got {init.identity} after {before.identity}"
        newest[init.transactional_id].append(init)
    for end in facts.history.ends:
        following = end.next_identity
        if following is None or not end.span.is_ok:
            continue
        if following < end.identity:
            yield f"{ids.get(end.session)} went on with {following} after {end.identity}"
        if owners.setdefault(following[0], ids.get(end.session, "")) != ids.get(end.session, ""):
            yield f"producer id {following[0]} is {owners[following[0]]}'s and {ids.get(end.session)}'s"


def i17_a_decision_stands_in_every_partition(facts: Facts) -> Iterator[str]:
    for transaction in facts.transactions.values():
        if transaction.is_told_committed and transaction.is_told_aborted:
            yield f"{transaction.name} was told committed and aborted"
        markers: dict[Partition, bool] = {}
        for send in transaction.sends:
            marker = _marker_behind(facts, send)
            if marker is not None:
                markers[send.partition] = bool(marker.marker)
        if len(set(markers.values())) > 1:
            yield f"{transaction.name} has markers of both kinds: {sorted(markers.items())}"
        for is_told, is_commit in ((transaction.is_told_committed, True), (transaction.is_told_aborted, False)):
            if is_told and (not is_commit) in markers.values():
                told = "committed" if is_commit else "aborted"
                yield f"{transaction.name} was told {told}: {sorted(markers.items())}"

    yield from _illegal_steps(facts)


def _illegal_steps(facts: Facts) -> Iterator[str]:
    """The coordinator's log, step by step."""
    last: dict[str, Step] = {}
    for step in facts.history.steps:
        before = last.get(step.transactional_id)
        if before is None:
            if step.state not in ("EMPTY", "PREPARE_ABORT"):
                yield f"{step.transactional_id} begins as {step.state}"
        elif step.state not in NEXT[before.state]:
            yield f"{step.transactional_id} went from {before.state} to {step.state}"
        elif step.identity[0] == before.identity[0] and step.identity[1] < before.identity[1]:
            yield f"{step.transactional_id} went from {before.identity} back to {step.identity}"
        last[step.transactional_id] = step


def _marker_behind(facts: Facts, send: Send) -> LogBatch | None:
    """The marker that ends the transaction of this record in its partition."""
    batches = facts.history.logs.get(send.partition, [])
    for index, batch in enumerate(batches):
        if send.value in batch.values:
            for later in batches[index + 1 :]:
                if later.marker is not None and later.identity[0] == batch.identity[0]:
                    return later
    return None


def _without_marker(batches: Sequence[LogBatch]) -> dict[int, int]:
    """Producer ids whose last transaction no marker ends, and where it begins."""
    open_ids: dict[int, int] = {}
    for batch in batches:
        if batch.marker is not None:
            open_ids.pop(batch.identity[0], None)
        elif batch.is_transactional:
            open_ids.setdefault(batch.identity[0], batch.base_offset)
    return open_ids


def i18_no_transaction_hangs(facts: Facts) -> Iterator[str]:
    history = facts.history
    for name in history.open_at_the_end:
        yield f"{name} is still open"
    last = {bounds.partition: bounds for bounds in sorted(history.bounds, key=lambda each: each.span.completed_at)}
    for bounds in last.values():
        if bounds.last_stable_offset != bounds.high_watermark:
            yield f"{bounds.partition} is stable to {bounds.last_stable_offset} of {bounds.high_watermark}"
    for partition, batches in history.logs.items():
        for producer_id, offset in _without_marker(batches).items():
            yield f"{partition}: producer id {producer_id} has no marker behind {offset}"
    yield from _open_too_long(facts)


def _open_too_long(facts: Facts) -> Iterator[str]:
    history = facts.history
    timeouts = {init.session: init.timeout_ms for init in history.inits}
    for transaction in facts.transactions.values():
        sent_ms = [send.at_ms for send in transaction.sends if send.span.is_ok]
        if not sent_ms:
            continue
        limit_ms = min(sent_ms) + timeouts.get(transaction.sends[0].session, 0) + history.slack_ms
        for send in transaction.sends:
            marker = _marker_behind(facts, send)
            if marker is not None and marker.timestamp_ms > limit_ms:
                yield f"{transaction.name} was open for {marker.timestamp_ms - min(sent_ms)} ms in {send.partition}"


def i19_a_batch_that_comes_again_is_answered_and_not_written(facts: Facts) -> Iterator[str]:
    answers: dict[tuple[Partition, Identity, int], Send] = {}
    for send in facts.history.sends:
        if send.span.is_ok and send.sequence >= 0 and send.identity[0] >= 0:
            before = answers.setdefault((send.partition, send.identity, send.sequence), send)
            if before.offset != send.offset:
                yield f"{send.partition}: {send.identity} sequence {send.sequence} at {before.offset} and {send.offset}"
    for partition, batches in facts.history.logs.items():
        following: dict[Identity, int] = {}
        for batch in batches:
            if batch.marker is not None or batch.identity[0] < 0:
                continue
            wanted = following.get(batch.identity, 0)
            if batch.base_sequence != wanted:
                yield f"{partition} at {batch.base_offset}: sequence {batch.base_sequence} after {wanted - 1}"
            count = batch.last_offset - batch.base_offset + 1
            following[batch.identity] = (batch.base_sequence + count) % (MAX_SEQUENCE + 1)
