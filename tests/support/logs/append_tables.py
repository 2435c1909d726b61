"""What a partition takes from a producer, and which markers, as literal tables.

Owns: the tables. `test_tables_append` asks a partition each line, and `tests/conformance` (`partition_transcript`) asks
brokers, Apache Kafka before all, as many of them as frames bring about.
"""

# A batch of epoch and first sequence; `2 of 4` is two records from 4 on.
# state  | epoch | sequence | plain                        | transactional, version 1     | transactional, version 2
BATCHES = """
nothing  | 3     | 0        | written                      | written                      | written
nothing  | 3     | 7        | written                      | written                      | OUT_OF_ORDER_SEQUENCE_NUMBER
plain    | 3     | 6        | written                      | written                      | written
plain    | 3     | 5        | duplicate                    | duplicate                    | duplicate
plain    | 3     | 1        | duplicate                    | duplicate                    | duplicate
plain    | 3     | 0        | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER
plain    | 3     | 8        | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER
plain    | 3     | 2 of 5   | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER
plain    | 3     | 2 of 4   | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER
plain    | 2     | 6        | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH
plain    | 2     | 5        | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH
plain    | 4     | 0        | written                      | written                      | written
plain    | 4     | 6        | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER
opened   | 3     | 2        | INVALID_TXN_STATE            | written                      | written
opened   | 3     | 1        | duplicate                    | duplicate                    | duplicate
opened   | 3     | 0        | duplicate                    | duplicate                    | duplicate
opened   | 3     | 7        | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER
opened   | 2     | 2        | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH
opened   | 4     | 0        | INVALID_TXN_STATE            | written                      | written
opened   | 4     | 2        | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER
ended    | 3     | 2        | written                      | written                      | written
ended    | 3     | 1        | duplicate                    | duplicate                    | duplicate
ended    | 3     | 7        | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER
ended    | 2     | 2        | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH
ended    | 4     | 0        | written                      | written                      | written
ended    | 4     | 2        | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER
bumped   | 3     | 0        | written                      | written                      | written
bumped   | 3     | 2        | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER
bumped   | 2     | 1        | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH
bumped   | 2     | 2        | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH
bumped   | 4     | 0        | written                      | written                      | written
bumped   | 4     | 2        | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER
wrapped  | 3     | 0        | written                      | written                      | written
wrapped  | 3     | 1        | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER
wrapped  | 2     | 0        | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH       | INVALID_PRODUCER_EPOCH
wrapped  | 4     | 0        | written                      | written                      | written
refused  | 3     | 0        | written                      | written                      | written
refused  | 3     | 1        | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER | OUT_OF_ORDER_SEQUENCE_NUMBER
refused  | 4     | 0        | written                      | written                      | written
"""
KINDS = ((False, 0), (True, 0), (True, 2))
"""Transactional, and the version."""

# The last marker, where there was one, came from coordinator epoch 5.
# state          | epoch | coordinator | of version 1                  | of version 2
MARKERS = """
nothing          | 0     | 5           | written                       | written
nothing          | 3     | 0           | written                       | written
plain            | 2     | 5           | INVALID_PRODUCER_EPOCH        | INVALID_PRODUCER_EPOCH
plain            | 3     | 0           | written                       | written
plain            | 4     | 5           | written                       | written
opened           | 2     | 5           | INVALID_PRODUCER_EPOCH        | INVALID_PRODUCER_EPOCH
opened           | 2     | 4           | INVALID_PRODUCER_EPOCH        | INVALID_PRODUCER_EPOCH
opened           | 3     | 5           | ends it                       | INVALID_PRODUCER_EPOCH
opened           | 3     | 4           | TRANSACTION_COORDINATOR_FENCED | INVALID_PRODUCER_EPOCH
opened           | 4     | 5           | ends it                       | ends it
opened           | 4     | 6           | ends it                       | ends it
opened           | 4     | 4           | TRANSACTION_COORDINATOR_FENCED | TRANSACTION_COORDINATOR_FENCED
ended            | 2     | 5           | INVALID_PRODUCER_EPOCH        | INVALID_PRODUCER_EPOCH
ended            | 3     | 5           | written                       | written
ended            | 3     | 4           | TRANSACTION_COORDINATOR_FENCED | TRANSACTION_COORDINATOR_FENCED
ended            | 4     | 5           | written                       | written
bumped           | 2     | 5           | INVALID_PRODUCER_EPOCH        | INVALID_PRODUCER_EPOCH
bumped           | 3     | 5           | written                       | written
bumped           | 3     | 4           | TRANSACTION_COORDINATOR_FENCED | TRANSACTION_COORDINATOR_FENCED
bumped           | 4     | 5           | written                       | written
open_at_the_last | 32766 | 5           | INVALID_PRODUCER_EPOCH        | INVALID_PRODUCER_EPOCH
open_at_the_last | 32767 | 5           | ends it                       | ends it
"""


def rows(table: str) -> list[list[str]]:
    return [[part.strip() for part in line.split("|")] for line in table.strip().splitlines()]
