"""Node ids as text, which name the broker among the resources with settings.

Owns: what counts as a number, exactly as Java's Integer.parseInt. Invariant: parsing costs no more than the text's
length, and raises nothing but KafkaError.
"""

from oncelog.protocol.errors import ErrorCode, KafkaError

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_MAX_DIGITS = 10


def parse_int32(text: str) -> int | None:
    """Parse at most one sign, then decimal digits of any script, in the range of an int32; None for anything else."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Java reads UTF-16 units: a digit beyond the basic plane is two of them, and not a digit to it.
    if not digits.isdecimal() or max(digits) > "\uffff":
        return None
    digits = digits.lstrip("0") or "0"
    if len(digits) > _MAX_DIGITS:
        return None
    number = -int(digits) if text[0] == "-" else int(digits)
    return number if _INT32_MIN <= number <= _INT32_MAX else None


def check_node_id(name: str, node_id: int, *, not_a_number: str, another: str) -> None:
    """Raises KafkaError(INVALID_REQUEST) unless `name` is this node's; the texts may contain {name} and {node_id}."""
    number = parse_int32(name)
    if number != node_id:
        text = not_a_number if number is None else another
        raise KafkaError(ErrorCode.INVALID_REQUEST, text.format(name=name, node_id=node_id))
