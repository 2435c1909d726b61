"""Opens a batch whose records must be looked at and are many, without keeping others waiting.

Owns: the order of that work: decompression and compression beside the loop, one batch at a time, so that the memory is
that of one; the check of its records in slices. Does not own: what is checked (`batch_validation`), what a batch
becomes (`recompression`), when it is appended. Invariant: what was opened is appended with the config of its opening.
Few topics need it: compacted ones, those with `oncelog.record.validation=full` or a `compression.type` of their own.
"""

from typing import NamedTuple

from oncelog.broker.log.batch_validation import checked, decompressed, validate_header
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.recompression import codec_of, rebuilt
from oncelog.broker.log.values import AppendOrigin
from oncelog.broker.turns.ports import WallMs
from oncelog.broker.turns.slices import Sliced, Slices
from oncelog.protocol.records.batch import HEADER_SIZE, BatchHeader


class OpenedBatch(NamedTuple):
    """A checked batch, which may be appended as it is."""

    config: LogConfig
    """The config with which it was checked."""
    batch: "memoryview"  # unquoted, mypyc looks it up among the module's names
    header: BatchHeader


def opened(batch: memoryview, config: LogConfig, wall_ms: WallMs, slices: Slices) -> Sliced[OpenedBatch]:
    """Open and check a client's batch. Raises KafkaError."""
    header = validate_header(batch, config, wall_ms, AppendOrigin.CLIENT)
    taken = slices.opening.take()
    try:
        yield taken
        body = batch[HEADER_SIZE:]
        compression = header.compression_type
        if compression:
            body = memoryview((yield from slices.beside(lambda: decompressed(compression, batch[HEADER_SIZE:]))))
        is_rebuilt = codec_of(config, header) != compression
        if config.checks_every_record or is_rebuilt:
            whole = yield from slices.charged(checked(body, header, config, wall_ms))
            if is_rebuilt:
                batch, header = yield from slices.beside(lambda: rebuilt(whole, header, config))
    finally:
        slices.opening.give_back()
    return OpenedBatch(config, batch, header)
