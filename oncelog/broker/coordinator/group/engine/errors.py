"""Errors of heartbeats that all types of groups have, in Kafka's words."""

from oncelog.protocol.errors import ErrorCode, KafkaError

LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""The epoch that a static member sends, and is stored with, while it is temporarily away."""
NOT_SAID = -1
_BLANK = "".join(map(chr, range(0x21)))
"""The characters that Java trims."""


def empty_field(*named: tuple[str, str | None]) -> str | None:
    """Return the problem of the first field that is sent and blank."""
    for name, value in named:
        if value is not None and not value.strip(_BLANK):
            return f"{name} can't be empty."
    return None


def unknown_member(member_id: str, group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def group_is_full(group_type: str, max_size: int) -> KafkaError:
    message = f"The {group_type} group has reached its maximum capacity of {max_size} members."
    return KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def fenced(group_type: str, epoch: int, known: int, detail: str = ".") -> KafkaError:
    """Return the error of a member that sent an epoch other than the known one."""
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {group_type} group member has a {'greater' if epoch > known else 'smaller'} member epoch ({epoch}) than "
        f"the one known by the group coordinator ({known}){detail} The member must abandon all its partitions and "
        "rejoin.",
    )
