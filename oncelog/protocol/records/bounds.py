"""Where the keys and values of records lie in the body of a batch: for columns, which need no object per record.

Owns: one pass over uncompressed records, with the same checks as decoding them (`record`), but that headers are only
skipped. Does not own: the batch header, decompression, what the bytes are copied into. Measured: twice as many records
a second as `decode_body` and a column of its values.
"""

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.record import MIN_RECORD_BYTES, read_zigzag


class Bounds:
    """Records of one or more bodies that lie in one buffer.

    `cuts` has four numbers per record after a first 0: where its key begins and ends, where its value begins and ends.
    A null is empty there, and its index is in `null_keys` or `null_values`.
    """

    __slots__ = ("cuts", "null_keys", "null_values", "timestamps")

    def __init__(self) -> None:
        self.cuts: list[int] = [0]
        self.timestamps: list[int] = []
        self.null_keys: list[int] = []
        self.null_values: list[int] = []

    def __len__(self) -> int:
        return len(self.timestamps)

    def add(self, data: bytes, position: int, end: int, record_count: int, base_timestamp: int) -> None:
        """Add the records of the body `data[position:end]`. Raises ProtocolError, and is then of no more use."""
        if not 0 <= record_count * MIN_RECORD_BYTES <= end - position:
            raise ProtocolError(f"{record_count} records do not fit into {end - position} bytes")
        first = len(self.timestamps)
        try:
            position = self._scan(data, position, end, record_count, base_timestamp)
        except IndexError as error:
            raise ProtocolError(f"record {len(self.timestamps) - first} is malformed: {error}") from error
        if position != end:
            raise ProtocolError(f"{end - position} bytes are left after the last of {record_count} records")

    # One loop without calls: it runs once per record, and a call for each varint would double its cost.
    def _scan(self, data: bytes, position: int, end: int, record_count: int, base_timestamp: int) -> int:  # noqa: C901
        cut, stamp = self.cuts.extend, self.timestamps.append
        first = len(self.timestamps)
        for index in range(first, first + record_count):
            # Varints of one byte, and of two where they are usual, are inlined here and below: a call each would double
            # the cost of a record.
            byte = data[position]
            position += 1
            if byte > 0x7F:
                next_byte = data[position]
                if next_byte < 0x80:
                    byte = next_byte << 7 | byte & 0x7F
                    length, position = (byte >> 1) ^ -(byte & 1), position + 1
                else:
                    length, position = read_zigzag(data, position - 1)
            else:
                length = (byte >> 1) ^ -(byte & 1)
            record_end = position + length
            if length < 0 or record_end > end:
                raise ProtocolError(f"a record of {length} bytes at byte {position}, {end - position} are left")
            byte = data[position + 1]
            position += 2
            if byte > 0x7F:
                byte, position = read_zigzag(data, position - 1)
                stamp(base_timestamp + byte)
            else:
                stamp(base_timestamp + ((byte >> 1) ^ -(byte & 1)))
            while data[position] > 0x7F:
                position += 1
            byte = data[position + 1]
            position += 2
            if byte > 0x7F:
                length, position = read_zigzag(data, position - 1)
            else:
                length = (byte >> 1) ^ -(byte & 1)
            if length < 0:
                self.null_keys.append(index)
                length = 0
            key_end = position + length
            # A damaged length may point far away: data[key_end] then raises IndexError, or the check below finds it.
            byte = data[key_end]
            start = key_end + 1
            if byte > 0x7F:
                next_byte = data[start]
                if next_byte < 0x80:
                    byte = next_byte << 7 | byte & 0x7F
                    length, start = (byte >> 1) ^ -(byte & 1), start + 1
                else:
                    length, start = read_zigzag(data, key_end)
            else:
                length = (byte >> 1) ^ -(byte & 1)
            if length < 0:
                self.null_values.append(index)
                length = 0
            value_end = start + length
            if value_end >= record_end:
                raise ProtocolError(f"a value of {length} bytes at byte {start}, {record_end - start} are left")
            cut((position, key_end, start, value_end))
            position = record_end
        return position
