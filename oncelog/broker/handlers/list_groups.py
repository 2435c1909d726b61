"""ListGroups (16), versions 0–5: every group of this broker; v4+ filters by state (KIP-518), v5+ by type (KIP-848).

Filters ignore case, as Kafka's do, but for the state NotReady, which Kafka's filter does not find by that name. Types
are `classic`, `consumer`, `share` and `streams`. A group that has only offsets is classic, is `Empty` and has no
protocol type. COORDINATOR_LOAD_IN_PROGRESS after a start, until all groups are loaded.
"""

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.list_groups_response import ListedGroup, ListGroupsResponse


def handle(context: RequestContext, request: ListGroupsRequest) -> Sliced[ListGroupsResponse]:
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    try:
        known = context.broker.groups.administration.all()
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code)
    groups = []
    for group in known:
        yield 1
        if (not states or group.state.lower() in states) and (not types or group.group_type in types):
            groups.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type=group.group_type,
                )
            )
    return ListGroupsResponse(groups=groups)
