"""I12 to I14: offsets of groups: visible with their transaction, in step with the outputs, one owner at a time."""

from collections.abc import Iterator

from tests.history.events import NEVER, Outcome, Partition, Span
from tests.history.facts import Facts


def i12_offsets_are_visible_if_their_transaction_is_committed(facts: Facts) -> Iterator[str]:
    history = facts.history
    for fetch in history.offset_fetches:
        asked = [
            commit.span.invoked_at
            for commit in history.group_commits
            if (commit.group, commit.partition, commit.offset) == (fetch.group, fetch.partition, fetch.offset)
            and commit.span.outcome is not Outcome.FAILED
        ]
        told = []
        for transaction in facts.transactions.values():
            for each in transaction.offsets:
                if (each.group, each.partition) != (fetch.group, fetch.partition):
                    continue
                if each.offset == fetch.offset and not transaction.is_told_aborted:
                    asked += [end.span.invoked_at for end in transaction.commits]
                if transaction.is_told_committed and each.span.is_ok:
                    ends = [end.span for end in transaction.ends if end.is_commit and end.span.is_ok]
                    told += [each.offset for span in ends if span.precedes(fetch.span)]
        if fetch.offset >= 0 and not any(at < fetch.span.completed_at for at in asked):
            yield f"{fetch.group} was told {fetch.offset} of {fetch.partition}, which nobody has committed"
        if told and fetch.offset < max(told):
            yield f"{fetch.group} was told {fetch.offset} of {fetch.partition} after the commit of {max(told)}"
    yield from _goes_back(facts)


def _goes_back(facts: Facts) -> Iterator[str]:
    highest: dict[tuple[str, Partition], tuple[int, Span]] = {}
    for fetch in sorted(facts.history.offset_fetches, key=lambda fetch: fetch.span.completed_at):
        key = fetch.group, fetch.partition
        before = highest.get(key)
        if before is not None and before[1].precedes(fetch.span) and fetch.offset < before[0]:
            yield f"{fetch.group} went back from {before[0]} to {fetch.offset} of {fetch.partition}"
        if before is None or fetch.offset >= before[0]:
            highest[key] = fetch.offset, fetch.span


def i13_outputs_are_the_inputs_below_the_committed_offset(facts: Facts) -> Iterator[str]:
    """Offsets without outputs, outputs without offsets, an input processed twice or out of order."""
    for group, source, sink in facts.history.pipelines:
        fetches = [f for f in facts.history.offset_fetches if (f.group, f.partition) == (group, source)]
        if not fetches or source not in facts.final or sink not in facts.final:
            continue
        committed = max(fetches, key=lambda fetch: fetch.span.invoked_at).offset
        wanted = sorted(offset for offset in facts.final[source] if offset < committed)
        sends = [facts.sends.get((sink, value)) for _, value in sorted(facts.final[sink].items())]
        made_of = [send.source[1] for send in sends if send is not None and send.source and send.source[0] == source]
        if made_of != wanted:
            yield f"{group} has committed {committed} of {source}: {made_of} came out of {wanted}"


def i14_a_partition_has_one_owner_in_a_generation(facts: Facts) -> Iterator[str]:
    history = facts.history
    owners: dict[tuple[str, int, Partition], str] = {}
    known_at: dict[tuple[str, int], int] = {}
    for seen in history.generations:
        known_at[seen.group, seen.generation] = min(known_at.get((seen.group, seen.generation), NEVER), seen.at)
        for partition in seen.owns:
            owner = owners.setdefault((seen.group, seen.generation, partition), seen.member)
            if owner != seen.member:
                yield f"{partition} is {owner}'s and {seen.member}'s in generation {seen.generation} of {seen.group}"
    commits: list[tuple[str, int, Span]] = [(each.group, each.generation, each.span) for each in history.group_commits]
    commits += [(each.group, each.generation, each.span) for each in history.send_offsets]
    for group, generation, span in commits:
        if generation < 0 or not span.is_ok:
            continue
        newer = [g for (name, g), at in known_at.items() if name == group and g > generation and at < span.invoked_at]
        if newer:
            yield f"{group} took a commit of generation {generation} after generation {max(newer)} had begun"
