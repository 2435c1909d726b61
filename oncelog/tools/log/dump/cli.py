"""The command line of `oncelog log dump`: the options of Kafka's DumpLogSegments (4.3), a table a file, and --json.

Owns: the options, the exit codes. Does not own: what is shown (`oncelog.tools.log.dump.files`, imported when the
command runs). Exit codes: 0 everything is intact, 1 something is damaged, 2 a file could not be read, or is not a file
of a log.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from oncelog.tools.log.where import Dsn, is_dsn, schema_option, snapshot
from oncelog.tools.terminal import fail, say, say_json_lines

if TYPE_CHECKING:
    from oncelog.tools.log.dump.decoders import Decode
    from oncelog.tools.log.dump.files import DumpOptions, Files
    from oncelog.tools.log.dump.findings import Findings

EXIT_DAMAGED = 1
EXIT_NOT_READ = 2
_MAX_INT = 2**31 - 1
_STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"


@click.command()
@click.argument("paths", metavar="[FILE_OR_DIRECTORY|DSN TOPIC-PARTITION]...", nargs=-1)
@click.option("--files", metavar="FILE,...", help="The files, separated by commas, as Kafka's tool takes them.")
@click.option("--print-data-log", is_flag=True, help="Print the contents of records; implied by any decoder.")
@click.option("--deep-iteration", is_flag=True, help="Print a line for each record; implied by --print-data-log.")
@click.option("--transaction-log-decoder", is_flag=True, help="Decode the records of __transaction_state.")
@click.option("--share-group-state-decoder", is_flag=True, help="Decode the records of __share_group_state.")
@click.option("--offsets-decoder", is_flag=True, help="Decode the records of __consumer_offsets.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Decode the records of __cluster_metadata.")
@click.option(
    "--key-decoder-class",
    metavar="CLASS",
    is_flag=False,
    flag_value=_STRING_DECODER,
    help="StringDecoder (the default), IntegerDecoder or LongDecoder of org.apache.kafka.tools.api.",
)
@click.option(
    "--value-decoder-class", metavar="CLASS", is_flag=False, flag_value=_STRING_DECODER, help="The same for values."
)
@click.option("--skip-record-metadata", is_flag=True, help="Print only the contents of records.")
@click.option(
    "--max-bytes", type=click.IntRange(0, _MAX_INT), default=_MAX_INT, help="Read a .log only up to this position."
)
@click.option("--index-sanity-check", is_flag=True, help="Check indexes only as a broker does at its start.")
@click.option("--verify-index-only", is_flag=True, help="Check indexes against the log, without printing entries.")
@click.option(
    "--max-message-size",
    type=click.IntRange(0, _MAX_INT),
    default=5 * 1024 * 1024,
    show_default=True,
    help="The largest batch that an index entry may name.",
)
@click.option("--remote-log-metadata-decoder", is_flag=True, hidden=True)
@schema_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, for programs.")
def dump(paths: Sequence[str], files: str | None, schema: str, as_json: bool, **options: Any) -> None:
    """Print what is in the files of a partition, as a table for each file.

    Takes .log, .index, .timeindex, .txnindex and .snapshot files, or
    the directory of a partition. Changes nothing; a broker may be running on the files. Exits with 1 if a file is
    damaged, and says where. With a DSN, of partitions in PostgreSQL: what their .log, .txnindex and .snapshot files
    would have.
    """
    from oncelog.tools.log.dump.batches import LogOptions
    from oncelog.tools.log.dump.files import DumpOptions, OwnFiles, files_of
    from oncelog.tools.log.dump.findings import Findings
    from oncelog.tools.log.dump.indexes import IndexOptions

    named = [*paths, *(files or "").split(",")] if files else list(paths)
    dsn = Dsn(named.pop(0)) if named and is_dsn(named[0]) else None
    wanted = [file for path in named if path.strip() for file in files_of(path.strip())] if dsn is None else named
    if not named:
        raise click.UsageError('Name files or the directory of a partition. (Missing required argument "[files]".)')
    if not wanted:
        raise click.UsageError(
            f"No file of a partition in {', '.join(named)}: name a .log file, or the directory of a partition, such as "
            "DATA_DIR/topic-0."
        )
    print_data = options["print_data_log"] or any(value for name, value in options.items() if "_decoder" in name)
    log_options = LogOptions(
        _decoder(options),
        is_deep=options["deep_iteration"] or print_data,
        print_data=print_data,
        skip_record_metadata=options["skip_record_metadata"],
        max_bytes=options["max_bytes"],
    )
    index_options = IndexOptions(
        options["index_sanity_check"], options["verify_index_only"], options["max_message_size"]
    )
    findings = Findings()
    dump_options = DumpOptions(log_options, index_options)
    if dsn is None:
        _print(wanted, OwnFiles(), dump_options, findings, as_json)
    else:
        _print_tables(dsn, schema, wanted, dump_options, findings, as_json)
    if findings.is_damaged:
        sys.exit(EXIT_DAMAGED)
    if findings.unreadable_files:
        sys.exit(EXIT_NOT_READ)


def _decoder(options: dict[str, Any]) -> "Decode":
    from oncelog.tools.log.dump import decoders as decoders

    if options["offsets_decoder"]:
        return decoders.offsets
    if options["transaction_log_decoder"]:
        return decoders.transactions
    if options["share_group_state_decoder"]:
        return decoders.share_states
    if options["cluster_metadata_decoder"]:
        return decoders.metadata
    if options["remote_log_metadata_decoder"]:
        raise click.UsageError("--remote-log-metadata-decoder is not supported: the broker has no tiered storage.")
    try:
        return decoders.by_class(
            options["key_decoder_class"] or _STRING_DECODER, options["value_decoder_class"] or _STRING_DECODER
        )
    except decoders.NoSuchDecoder as error:
        raise click.UsageError(str(error)) from None


def _print_tables(
    dsn: Dsn, schema: str, names: Sequence[str], options: "DumpOptions", findings: "Findings", as_json: bool
) -> None:
    from oncelog.tools.log.tables.files import NoSuchPartition, TableFiles

    with snapshot(dsn, schema) as tables:
        files = TableFiles(tables)
        try:
            wanted = [path for name in names for path in files.paths_of(name)]
        except NoSuchPartition as error:
            fail(str(error), EXIT_NOT_READ)
        _print(wanted, files, options, findings, as_json)


def _print(paths: Sequence[str], files: "Files", options: "DumpOptions", findings: "Findings", as_json: bool) -> None:
    from oncelog.tools.log.dump.files import dump_files
    from oncelog.tools.log.dump.tables import say_rows

    dumped = dump_files(paths, options, findings, files)
    if as_json:
        say_json_lines({"file": path} | row for path, rows in dumped for row in rows)
        say_json_lines(findings.rows)
    else:
        for number, (path, rows) in enumerate(dumped):
            if number:
                say()
            say_rows(path, rows, only_records=options.log.is_deep)
    for line in (*findings.unreadable_files, *(() if as_json else findings.lines())):
        say(line, err=True)
