"""What `oncelog log verify` and `oncelog log repair` print."""

from typing import TYPE_CHECKING, Any

from oncelog.protocol.topics import CONSUMER_OFFSETS, METADATA_TOPIC, SHARE_GROUP_STATE, TRANSACTION_STATE
from oncelog.tools.terminal import say, say_json

if TYPE_CHECKING:
    from oncelog.broker.storage.local.survey import LostRange
    from oncelog.tools.log.check import Examination, Finding


def show(examination: "Examination", as_json: bool) -> None:
    if as_json:
        say_json(as_dict(examination))
        return
    rows: list[tuple[str, ...]] = [("PARTITION", "SEGMENTS", "OFFSETS", "BYTES", "FIRST BAD", "LOST")]
    rows += [_row(finding) for finding in examination.findings]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if not slot else cell.rjust(width)
            for slot, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        say("  ".join(cells).rstrip())
    for finding in examination.findings:
        for line in _lines(finding):
            say(line)
    for problem in examination.problems:
        say()
        say(problem)
    for name in examination.unknown_directories:
        say()
        say(f"{name}: this partition is unknown to the metadata log; a start leaves it alone")
    damaged, incomplete_count = len(examination.damaged), examination.incomplete_count
    whole = "all partitions are intact" if not examination.problems else "all known partitions are intact"
    say()
    if damaged or not incomplete_count:
        say(f"{damaged} of {len(examination.findings)} partitions damaged" if damaged else whole)
    if incomplete_count:
        say(f"{incomplete_count} batches without the records that they announce; each is as it was written")
        say(
            "Readers stop at such a batch with an error, and no repair brings back what was never stored: send these "
            "records again, and move groups past it (`oncelog group reset`)."
        )


def _row(finding: "Finding") -> tuple[str, ...]:
    survey = finding.survey
    first_bad = str(survey.lost[0].first_offset) if survey is not None and survey.lost else "-"
    lost = "-" if survey is None else f"{survey.lost_count} offsets"
    start, end = finding.log_start_offset, finding.log_end_offset
    offsets = f"{start} to {end - 1}" if start < end else "-"
    return finding.name, str(finding.segment_count), offsets, str(finding.size_bytes), first_bad, lost


def _lines(finding: "Finding") -> list[str]:
    lines = [line for note in finding.notes for line in ("", f"{finding.name}: {note}")]
    if finding.incomplete:
        lines += ["", *(f"{finding.name}: {_of_incomplete(found)}" for found in finding.incomplete[:_MOST_SHOWN])]
        if len(finding.incomplete) > _MOST_SHOWN:
            lines.append(f"{finding.name}: and {len(finding.incomplete) - _MOST_SHOWN} more; --json has them all")
    if finding.problem is None:
        return lines
    lines += ["", f"{finding.name}: {finding.problem.removeprefix(f'{finding.name} is offline: ')}"]
    if finding.survey is None:
        return [*lines, "  a repair cannot help here, and leaves these files unchanged"]
    for lost in finding.survey.lost:
        where = f"{lost.file} at position {lost.position}"
        lines.append(f"  lost: offsets {lost.first_offset} to {lost.next_offset - 1}: {where}: {lost.problem}")
    if not finding.survey.lost:
        lines.append("  nothing is lost: each batch is intact")
    for producer_id, first_offset in sorted(finding.survey.open_transactions.items()):
        lines.append(
            f"  the transaction of producer {producer_id} from offset {first_offset} on stays open here, because its "
            "end may be among what is lost: read_committed readers stop there until it is ended"
        )
    if finding.topic in _CONSEQUENCES and finding.survey.lost:
        lines.append(f"  {_CONSEQUENCES[finding.topic]}")
    return lines


def _of_incomplete(found: "LostRange") -> str:
    return f"offsets {found.first_offset} to {found.next_offset - 1}: {found.file} at position {found.position}: " + (
        found.problem
    )


_MOST_SHOWN = 20
_CONSEQUENCES = {
    TRANSACTION_STATE: "transactional ids of this partition may revert to an earlier state: restart their producers, "
    "and look for hanging transactions",
    CONSUMER_OFFSETS: "groups of this partition may revert to earlier offsets and read records again",
    SHARE_GROUP_STATE: "share groups of this partition may read records again that they have acknowledged",
    METADATA_TOPIC: "topics and settings created or changed after that are unknown: files of such topics are "
    "left alone and not served",
}


def as_dict(examination: "Examination") -> dict[str, Any]:
    return {
        "partitions": [
            {
                "topic": finding.topic,
                "partition": finding.partition,
                "segments": finding.segment_count,
                "log_start_offset": finding.log_start_offset,
                "log_end_offset": finding.log_end_offset,
                "bytes": finding.size_bytes,
                "damaged": finding.problem is not None,
                "problem": finding.problem,
                "notes": list(finding.notes),
                "lost": [_range(lost) for lost in (finding.survey.lost if finding.survey is not None else ())],
                "incomplete": [_range(found) for found in finding.incomplete],
                "open_transactions": [
                    {"producer_id": producer_id, "first_offset": first_offset}
                    for producer_id, first_offset in sorted(
                        finding.survey.open_transactions.items() if finding.survey is not None else ()
                    )
                ],
            }
            for finding in examination.findings
        ],
        "unknown_directories": examination.unknown_directories,
        "problems": examination.problems,
        "damaged": bool(examination.damaged),
    }


def _range(found: "LostRange") -> dict[str, Any]:
    return {
        "first_offset": found.first_offset,
        "last_offset": found.next_offset - 1,
        "file": found.file,
        "position": found.position,
        "problem": found.problem,
    }
