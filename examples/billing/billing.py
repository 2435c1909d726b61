"""What a service that bills orders does with one of them; no Kafka in it.

Owns: how an order becomes an invoice, and which orders cannot. Does not own: who reads and writes (`with_oncelog`,
`with_aiokafka`, `with_confluent_kafka`, which do the same).
"""

import json
from collections.abc import Callable

Bill = Callable[[bytes], bytes]


class Refused(Exception):
    """Raised for an order that no retry makes better."""


def invoice_of(order: bytes) -> bytes:
    """Raises Refused."""
    try:
        fields = json.loads(order)
        cents = fields["cents"] * fields.get("count", 1)
        return json.dumps({"order": fields["id"], "cents": cents}).encode()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(str(error)) from error


def outcome(order: bytes, bill: Bill) -> tuple[str, bytes]:
    """Return the topic and the value that an order becomes: a poison record is put aside, and stops nothing."""
    try:
        return "invoices", bill(order)
    except Refused:
        return "refused", order
