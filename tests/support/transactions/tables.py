"""What the coordinator answers to each request in each state, as literal tables.

Owns: the tables, in Kafka's words, and how they are read. tests/unit/transaction/test_tables.py asks the decisions for
each cell, and holds that none is missing and none is named twice. Does not own: the lives that the states are of
(`transaction_lives`), and how a decision is asked (`transaction_requests`).

A line has states, who asks, and the outcome; two of them where a request comes in two kinds, named above its tables.
An outcome is the error that is answered; or the state and epoch that are logged (`NONE` alone: nothing is); or both.
Commas join what is alike. `known` is each state of the life but unknown; `pending` is the same while a transition is
not durable yet; `everybody` is each column. `+10` is the producer id that COMPLETE takes up, in brackets for the
second kind only.
"""

from collections.abc import Iterator

from tests.support.transactions.lives import LIVES, UNKNOWN

Tables = dict[str, str]
Cell = tuple[str, str, str]
"""Life, state, who. `pending Empty` is Empty while a transition is not durable yet."""


def read(tables: Tables) -> Iterator[tuple[Cell, tuple[str, str]]]:
    """Each cell and its outcome in both kinds, in the order of the lines."""
    for name, table in tables.items():
        life = LIVES[name]
        known = [state for state in life.states if state != UNKNOWN]
        several = {"known": known, "pending": [f"pending {state}" for state in known], "everybody": list(life.who)}
        for line in table.strip().splitlines():
            states, who, *outcomes = (part.strip() for part in line.split("|"))
            first = outcomes[0].replace(" (+10)", "")
            second = outcomes[-1].replace("(+10)", "+10")
            for state in several.get(states, states.split(", ")):
                yield from (((name, state, column), (first, second)) for column in several.get(who, who.split(", ")))


# --- InitProducerId at level 1 | 2 of transaction.version; who has no pair is a new instance --------------------------

INIT_PRODUCER_ID: Tables = {
    "ordinary": """
    unknown                       | everybody                        | Empty 0 of 10
    Empty                         | no pair, the producer            | Empty 4
    Empty                         | an epoch before                  | NONE
    Empty                         | two epochs before, a later epoch | PRODUCER_FENCED
    CompleteCommit, CompleteAbort | no pair, the producer            | Empty 4
    CompleteCommit, CompleteAbort | an epoch before                  | Empty 3
    CompleteCommit, CompleteAbort | two epochs before, a later epoch | PRODUCER_FENCED
    Ongoing                       | no pair, the producer            | CONCURRENT_TRANSACTIONS, PrepareAbort 4
    Ongoing                       | an epoch before                  | CONCURRENT_TRANSACTIONS, PrepareAbort 4
    Ongoing                       | two epochs before, a later epoch | CONCURRENT_TRANSACTIONS, PrepareAbort 4
    PrepareCommit, PrepareAbort   | no pair, the producer            | CONCURRENT_TRANSACTIONS
    PrepareCommit, PrepareAbort   | an epoch before                  | CONCURRENT_TRANSACTIONS
    PrepareCommit, PrepareAbort   | two epochs before, a later epoch | CONCURRENT_TRANSACTIONS
    known                         | another producer id              | PRODUCER_FENCED
    pending                       | everybody                        | CONCURRENT_TRANSACTIONS
    """,
    "restarted": """
    Empty                         | no pair, the producer              | Empty 4
    Empty                         | an epoch before, two epochs before | PRODUCER_FENCED
    Empty                         | a later epoch                      | PRODUCER_FENCED
    CompleteCommit, CompleteAbort | no pair, the producer              | Empty 4
    CompleteCommit, CompleteAbort | an epoch before, two epochs before | PRODUCER_FENCED
    CompleteCommit, CompleteAbort | a later epoch                      | PRODUCER_FENCED
    Ongoing                       | no pair, the producer              | CONCURRENT_TRANSACTIONS, PrepareAbort 4
    Ongoing                       | an epoch before                    | CONCURRENT_TRANSACTIONS, PrepareAbort 4
    Ongoing                       | two epochs before, a later epoch   | CONCURRENT_TRANSACTIONS, PrepareAbort 4
    PrepareCommit, PrepareAbort   | no pair, the producer              | CONCURRENT_TRANSACTIONS
    PrepareCommit, PrepareAbort   | an epoch before                    | CONCURRENT_TRANSACTIONS
    PrepareCommit, PrepareAbort   | two epochs before, a later epoch   | CONCURRENT_TRANSACTIONS
    known                         | another producer id                | PRODUCER_FENCED
    pending                       | everybody                          | CONCURRENT_TRANSACTIONS
    """,
    "last epoch": """
    Empty                         | no pair, the producer            | Empty 0 of 10
    Empty                         | an epoch before                  | NONE
    Empty                         | two epochs before, a later epoch | PRODUCER_FENCED
    CompleteCommit, CompleteAbort | no pair, the producer            | Empty 0 of 10
    CompleteCommit, CompleteAbort | an epoch before                  | Empty 32766
    CompleteCommit, CompleteAbort | two epochs before, a later epoch | PRODUCER_FENCED
    Ongoing                       | no pair, the producer            | CONCURRENT_TRANSACTIONS, PrepareAbort 32767 (+10)
    Ongoing                       | an epoch before                  | CONCURRENT_TRANSACTIONS, PrepareAbort 32767 (+10)
    Ongoing                       | two epochs before, a later epoch | CONCURRENT_TRANSACTIONS, PrepareAbort 32767 (+10)
    PrepareCommit, PrepareAbort   | no pair, the producer            | CONCURRENT_TRANSACTIONS
    PrepareCommit, PrepareAbort   | an epoch before                  | CONCURRENT_TRANSACTIONS
    PrepareCommit, PrepareAbort   | two epochs before, a later epoch | CONCURRENT_TRANSACTIONS
    known                         | another producer id              | PRODUCER_FENCED
    pending                       | everybody                        | CONCURRENT_TRANSACTIONS
    """,
    "fenced at the last epoch": """
    Empty                         | no pair, the fence            | Empty 0 of 10
    Empty                         | the producer, an epoch before | PRODUCER_FENCED
    CompleteCommit, CompleteAbort | no pair, the fence            | Empty 0 of 10
    CompleteCommit, CompleteAbort | the producer, an epoch before | PRODUCER_FENCED
    Ongoing                       | no pair, the fence            | CONCURRENT_TRANSACTIONS, PrepareAbort 32767 (+10)
    Ongoing                       | the producer, an epoch before | CONCURRENT_TRANSACTIONS, PrepareAbort 32767 (+10)
    PrepareCommit, PrepareAbort   | no pair, the fence            | CONCURRENT_TRANSACTIONS
    PrepareCommit, PrepareAbort   | the producer, an epoch before | CONCURRENT_TRANSACTIONS
    known                         | another producer id           | PRODUCER_FENCED
    pending                       | everybody                     | CONCURRENT_TRANSACTIONS
    """,
    "rotated": """
    known                         | no pair, the producer              | Empty 1
    Empty                         | the id before at its last epoch    | NONE
    CompleteCommit, CompleteAbort | the id before at its last epoch    | Empty 0
    known                         | the id before at its fence         | PRODUCER_FENCED
    known                         | the id before at an older epoch    | PRODUCER_FENCED
    Empty                         | the new id at the epoch before     | NONE
    CompleteCommit, CompleteAbort | the new id at the epoch before     | Empty 0
    known                         | a later epoch, another producer id | PRODUCER_FENCED
    pending                       | everybody                          | CONCURRENT_TRANSACTIONS
    """,
    "rotating": """
    known   | no pair, the producer            | CONCURRENT_TRANSACTIONS
    known   | the fence, an epoch before       | CONCURRENT_TRANSACTIONS
    known   | the next id, another producer id | PRODUCER_FENCED
    pending | everybody                        | CONCURRENT_TRANSACTIONS
    """,
}

# --- AddPartitionsToTxn, AddOffsetsToTxn, Produce 12, TxnOffsetCommit 5: a partition that is new | in already ---------

ADD_PARTITIONS: Tables = {
    "ordinary": """
    unknown                     | everybody                          | INVALID_PRODUCER_ID_MAPPING
    Empty, CompleteCommit       | the producer                       | Ongoing 3
    CompleteAbort               | the producer                       | Ongoing 3
    Ongoing                     | the producer                       | Ongoing 3 | NONE
    PrepareCommit, PrepareAbort | the producer                       | CONCURRENT_TRANSACTIONS
    known                       | an epoch before, two epochs before | PRODUCER_FENCED
    known                       | a later epoch                      | PRODUCER_FENCED
    known                       | no pair, another producer id       | INVALID_PRODUCER_ID_MAPPING
    pending                     | everybody                          | CONCURRENT_TRANSACTIONS
    """,
    "last epoch": """
    Empty, CompleteCommit       | the producer                       | Ongoing 32766
    CompleteAbort               | the producer                       | Ongoing 32766
    Ongoing                     | the producer                       | Ongoing 32766 | NONE
    PrepareCommit, PrepareAbort | the producer                       | CONCURRENT_TRANSACTIONS
    known                       | an epoch before, two epochs before | PRODUCER_FENCED
    known                       | a later epoch                      | PRODUCER_FENCED
    known                       | no pair, another producer id       | INVALID_PRODUCER_ID_MAPPING
    pending                     | everybody                          | CONCURRENT_TRANSACTIONS
    """,
    "fenced at the last epoch": """
    Empty, CompleteCommit       | the fence                     | Ongoing 32767
    CompleteAbort               | the fence                     | Ongoing 32767
    Ongoing                     | the fence                     | Ongoing 32767 | NONE
    PrepareCommit, PrepareAbort | the fence                     | CONCURRENT_TRANSACTIONS
    known                       | the producer, an epoch before | PRODUCER_FENCED
    known                       | no pair, another producer id  | INVALID_PRODUCER_ID_MAPPING
    pending                     | everybody                     | CONCURRENT_TRANSACTIONS
    """,
    "rotated": """
    known   | the producer                    | Ongoing 0
    known   | a later epoch                   | PRODUCER_FENCED
    known   | the new id at the epoch before  | PRODUCER_FENCED
    known   | the id before at its last epoch | INVALID_PRODUCER_ID_MAPPING
    known   | the id before at its fence      | INVALID_PRODUCER_ID_MAPPING
    known   | the id before at an older epoch | INVALID_PRODUCER_ID_MAPPING
    known   | no pair, another producer id    | INVALID_PRODUCER_ID_MAPPING
    pending | everybody                       | CONCURRENT_TRANSACTIONS
    """,
    "rotating": """
    known   | the fence                     | CONCURRENT_TRANSACTIONS
    known   | the producer, an epoch before | PRODUCER_FENCED
    known   | no pair, the next id          | INVALID_PRODUCER_ID_MAPPING
    known   | another producer id           | INVALID_PRODUCER_ID_MAPPING
    pending | everybody                     | CONCURRENT_TRANSACTIONS
    """,
}

# --- VerifyOnly, and before each append: may a batch open the transaction on a partition that is in it | not in it ----

VERIFY_PARTITION: Tables = {
    "ordinary": """
    unknown                     | everybody                          | INVALID_PRODUCER_ID_MAPPING
    Empty, CompleteCommit       | the producer                       | TRANSACTION_ABORTABLE
    CompleteAbort               | the producer                       | TRANSACTION_ABORTABLE
    Ongoing                     | the producer                       | NONE | TRANSACTION_ABORTABLE
    PrepareCommit, PrepareAbort | the producer                       | CONCURRENT_TRANSACTIONS
    known                       | an epoch before, two epochs before | PRODUCER_FENCED
    known                       | a later epoch                      | PRODUCER_FENCED
    known                       | no pair, another producer id       | INVALID_PRODUCER_ID_MAPPING
    """,
    "last epoch": """
    Empty, CompleteCommit       | the producer                       | TRANSACTION_ABORTABLE
    CompleteAbort               | the producer                       | TRANSACTION_ABORTABLE
    Ongoing                     | the producer                       | NONE | TRANSACTION_ABORTABLE
    PrepareCommit, PrepareAbort | the producer                       | CONCURRENT_TRANSACTIONS
    known                       | an epoch before, two epochs before | PRODUCER_FENCED
    known                       | a later epoch                      | PRODUCER_FENCED
    known                       | no pair, another producer id       | INVALID_PRODUCER_ID_MAPPING
    """,
    "fenced at the last epoch": """
    Empty, CompleteCommit       | the fence                     | TRANSACTION_ABORTABLE
    CompleteAbort               | the fence                     | TRANSACTION_ABORTABLE
    Ongoing                     | the fence                     | NONE | TRANSACTION_ABORTABLE
    PrepareCommit, PrepareAbort | the fence                     | CONCURRENT_TRANSACTIONS
    known                       | the producer, an epoch before | PRODUCER_FENCED
    known                       | no pair, another producer id  | INVALID_PRODUCER_ID_MAPPING
    """,
    "rotated": """
    known | the producer                    | TRANSACTION_ABORTABLE
    known | a later epoch                   | PRODUCER_FENCED
    known | the new id at the epoch before  | PRODUCER_FENCED
    known | the id before at its last epoch | INVALID_PRODUCER_ID_MAPPING
    known | the id before at its fence      | INVALID_PRODUCER_ID_MAPPING
    known | the id before at an older epoch | INVALID_PRODUCER_ID_MAPPING
    known | no pair, another producer id    | INVALID_PRODUCER_ID_MAPPING
    """,
    "rotating": """
    known | the fence                     | CONCURRENT_TRANSACTIONS
    known | the producer, an epoch before | PRODUCER_FENCED
    known | no pair, the next id          | INVALID_PRODUCER_ID_MAPPING
    known | another producer id           | INVALID_PRODUCER_ID_MAPPING
    """,
}

# --- EndTxn up to version 4, commit | abort: who asks comes before what is pending ------------------------------------

END_V1: Tables = {
    "ordinary": """
    unknown        | everybody                          | INVALID_PRODUCER_ID_MAPPING
    Empty          | the producer                       | INVALID_TXN_STATE
    Ongoing        | the producer                       | PrepareCommit 3         | PrepareAbort 3
    PrepareCommit  | the producer                       | CONCURRENT_TRANSACTIONS | INVALID_TXN_STATE
    PrepareAbort   | the producer                       | INVALID_TXN_STATE       | CONCURRENT_TRANSACTIONS
    CompleteCommit | the producer                       | NONE                    | INVALID_TXN_STATE
    CompleteAbort  | the producer                       | INVALID_TXN_STATE       | NONE
    known          | an epoch before, two epochs before | PRODUCER_FENCED
    known          | a later epoch                      | PRODUCER_FENCED
    known          | no pair, another producer id       | INVALID_PRODUCER_ID_MAPPING
    pending        | the producer                       | CONCURRENT_TRANSACTIONS
    pending        | an epoch before, two epochs before | PRODUCER_FENCED
    pending        | a later epoch                      | PRODUCER_FENCED
    pending        | no pair, another producer id       | INVALID_PRODUCER_ID_MAPPING
    """,
    "last epoch": """
    Empty          | the producer                       | INVALID_TXN_STATE
    Ongoing        | the producer                       | PrepareCommit 32766     | PrepareAbort 32766
    PrepareCommit  | the producer                       | CONCURRENT_TRANSACTIONS | INVALID_TXN_STATE
    PrepareAbort   | the producer                       | INVALID_TXN_STATE       | CONCURRENT_TRANSACTIONS
    CompleteCommit | the producer                       | NONE                    | INVALID_TXN_STATE
    CompleteAbort  | the producer                       | INVALID_TXN_STATE       | NONE
    known          | an epoch before, two epochs before | PRODUCER_FENCED
    known          | a later epoch                      | PRODUCER_FENCED
    known          | no pair, another producer id       | INVALID_PRODUCER_ID_MAPPING
    pending        | the producer                       | CONCURRENT_TRANSACTIONS
    pending        | an epoch before, two epochs before | PRODUCER_FENCED
    pending        | a later epoch                      | PRODUCER_FENCED
    pending        | no pair, another producer id       | INVALID_PRODUCER_ID_MAPPING
    """,
    "fenced at the last epoch": """
    Empty          | the fence                     | INVALID_TXN_STATE
    Ongoing        | the fence                     | PrepareCommit 32767     | PrepareAbort 32767
    PrepareCommit  | the fence                     | CONCURRENT_TRANSACTIONS | INVALID_TXN_STATE
    PrepareAbort   | the fence                     | INVALID_TXN_STATE       | CONCURRENT_TRANSACTIONS
    CompleteCommit | the fence                     | NONE                    | INVALID_TXN_STATE
    CompleteAbort  | the fence                     | INVALID_TXN_STATE       | NONE
    known          | the producer, an epoch before | PRODUCER_FENCED
    known          | no pair, another producer id  | INVALID_PRODUCER_ID_MAPPING
    pending        | the fence                     | CONCURRENT_TRANSACTIONS
    pending        | the producer, an epoch before | PRODUCER_FENCED
    pending        | no pair, another producer id  | INVALID_PRODUCER_ID_MAPPING
    """,
    "rotated": """
    Empty          | the producer                    | INVALID_TXN_STATE
    CompleteCommit | the producer                    | NONE              | INVALID_TXN_STATE
    CompleteAbort  | the producer                    | INVALID_TXN_STATE | NONE
    known          | a later epoch                   | PRODUCER_FENCED
    known          | the new id at the epoch before  | PRODUCER_FENCED
    known          | the id before at its last epoch | INVALID_PRODUCER_ID_MAPPING
    known          | the id before at its fence      | INVALID_PRODUCER_ID_MAPPING
    known          | the id before at an older epoch | INVALID_PRODUCER_ID_MAPPING
    known          | no pair, another producer id    | INVALID_PRODUCER_ID_MAPPING
    pending        | the producer                    | CONCURRENT_TRANSACTIONS
    pending        | a later epoch                   | PRODUCER_FENCED
    pending        | the new id at the epoch before  | PRODUCER_FENCED
    pending        | the id before at its last epoch | INVALID_PRODUCER_ID_MAPPING
    pending        | the id before at its fence      | INVALID_PRODUCER_ID_MAPPING
    pending        | the id before at an older epoch | INVALID_PRODUCER_ID_MAPPING
    pending        | no pair, another producer id    | INVALID_PRODUCER_ID_MAPPING
    """,
    "rotating": """
    PrepareCommit | the fence                     | CONCURRENT_TRANSACTIONS | INVALID_TXN_STATE
    PrepareAbort  | the fence                     | INVALID_TXN_STATE       | CONCURRENT_TRANSACTIONS
    known         | the producer, an epoch before | PRODUCER_FENCED
    known         | no pair, the next id          | INVALID_PRODUCER_ID_MAPPING
    known         | another producer id           | INVALID_PRODUCER_ID_MAPPING
    pending       | the fence                     | CONCURRENT_TRANSACTIONS
    pending       | the producer, an epoch before | PRODUCER_FENCED
    pending       | no pair, the next id          | INVALID_PRODUCER_ID_MAPPING
    pending       | another producer id           | INVALID_PRODUCER_ID_MAPPING
    """,
}

# --- EndTxn from version 5 on, commit | abort: what is pending comes first, the epoch shows whether it is a retry -----

END_V2: Tables = {
    "ordinary": """
    unknown        | everybody                        | INVALID_PRODUCER_ID_MAPPING
    Empty          | the producer                     | INVALID_TXN_STATE       | PrepareAbort 4
    Empty          | an epoch before                  | PRODUCER_FENCED
    Ongoing        | the producer                     | PrepareCommit 4         | PrepareAbort 4
    Ongoing        | an epoch before                  | PRODUCER_FENCED
    PrepareCommit  | the producer                     | PRODUCER_FENCED
    PrepareCommit  | an epoch before                  | CONCURRENT_TRANSACTIONS | INVALID_TXN_STATE
    PrepareAbort   | the producer                     | PRODUCER_FENCED
    PrepareAbort   | an epoch before                  | INVALID_TXN_STATE       | CONCURRENT_TRANSACTIONS
    CompleteCommit | the producer                     | INVALID_TXN_STATE       | PrepareAbort 4
    CompleteCommit | an epoch before                  | NONE                    | INVALID_TXN_STATE
    CompleteAbort  | the producer                     | INVALID_TXN_STATE       | PrepareAbort 4
    CompleteAbort  | an epoch before                  | INVALID_TXN_STATE       | NONE
    known          | two epochs before, a later epoch | PRODUCER_FENCED
    known          | no pair, another producer id     | INVALID_PRODUCER_ID_MAPPING
    pending        | everybody                        | CONCURRENT_TRANSACTIONS
    """,
    "last epoch": """
    Empty          | the producer                     | INVALID_TXN_STATE       | PrepareAbort 32767 +10
    Empty          | an epoch before                  | PRODUCER_FENCED
    Ongoing        | the producer                     | PrepareCommit 32767 +10 | PrepareAbort 32767 +10
    Ongoing        | an epoch before                  | PRODUCER_FENCED
    PrepareCommit  | the producer                     | PRODUCER_FENCED
    PrepareCommit  | an epoch before                  | CONCURRENT_TRANSACTIONS | INVALID_TXN_STATE
    PrepareAbort   | the producer                     | PRODUCER_FENCED
    PrepareAbort   | an epoch before                  | INVALID_TXN_STATE       | CONCURRENT_TRANSACTIONS
    CompleteCommit | the producer                     | INVALID_TXN_STATE       | PrepareAbort 32767 +10
    CompleteCommit | an epoch before                  | NONE                    | INVALID_TXN_STATE
    CompleteAbort  | the producer                     | INVALID_TXN_STATE       | PrepareAbort 32767 +10
    CompleteAbort  | an epoch before                  | INVALID_TXN_STATE       | NONE
    known          | two epochs before, a later epoch | PRODUCER_FENCED
    known          | no pair, another producer id     | INVALID_PRODUCER_ID_MAPPING
    pending        | everybody                        | CONCURRENT_TRANSACTIONS
    """,
    "fenced at the last epoch": """
    Empty          | the fence                    | INVALID_TXN_STATE       | PrepareAbort 32767 +10
    Empty          | the producer                 | PRODUCER_FENCED
    Ongoing        | the fence                    | PrepareCommit 32767 +10 | PrepareAbort 32767 +10
    Ongoing        | the producer                 | PRODUCER_FENCED
    PrepareCommit  | the fence                    | PRODUCER_FENCED
    PrepareCommit  | the producer                 | CONCURRENT_TRANSACTIONS | INVALID_TXN_STATE
    PrepareAbort   | the fence                    | PRODUCER_FENCED
    PrepareAbort   | the producer                 | INVALID_TXN_STATE       | CONCURRENT_TRANSACTIONS
    CompleteCommit | the fence                    | INVALID_TXN_STATE       | PrepareAbort 32767 +10
    CompleteCommit | the producer                 | NONE                    | INVALID_TXN_STATE
    CompleteAbort  | the fence                    | INVALID_TXN_STATE       | PrepareAbort 32767 +10
    CompleteAbort  | the producer                 | INVALID_TXN_STATE       | NONE
    known          | an epoch before              | PRODUCER_FENCED
    known          | no pair, another producer id | INVALID_PRODUCER_ID_MAPPING
    pending        | everybody                    | CONCURRENT_TRANSACTIONS
    """,
    "rotated": """
    Empty          | the producer                    | INVALID_TXN_STATE | PrepareAbort 1
    Empty          | the id before at its last epoch | PRODUCER_FENCED
    CompleteCommit | the producer                    | INVALID_TXN_STATE | PrepareAbort 1
    CompleteCommit | the id before at its last epoch | NONE              | INVALID_TXN_STATE
    CompleteAbort  | the producer                    | INVALID_TXN_STATE | PrepareAbort 1
    CompleteAbort  | the id before at its last epoch | INVALID_TXN_STATE | NONE
    known          | a later epoch                   | PRODUCER_FENCED
    known          | the new id at the epoch before  | PRODUCER_FENCED
    known          | the id before at its fence      | INVALID_PRODUCER_ID_MAPPING
    known          | the id before at an older epoch | INVALID_PRODUCER_ID_MAPPING
    known          | no pair, another producer id    | INVALID_PRODUCER_ID_MAPPING
    pending        | everybody                       | CONCURRENT_TRANSACTIONS
    """,
    "rotating": """
    PrepareCommit | the producer               | CONCURRENT_TRANSACTIONS | INVALID_TXN_STATE
    PrepareAbort  | the producer               | INVALID_TXN_STATE       | CONCURRENT_TRANSACTIONS
    known         | the fence, an epoch before | PRODUCER_FENCED
    known         | no pair, the next id       | INVALID_PRODUCER_ID_MAPPING
    known         | another producer id        | INVALID_PRODUCER_ID_MAPPING
    pending       | everybody                  | CONCURRENT_TRANSACTIONS
    """,
}
