"""AlterConfigs (33), versions 0–2: all settings of a resource at once; what is not named is unset (KIP-133).

- Each resource is answered on its own. A change is in force at once and answered once durable; `validate_only` decides
  and writes nothing.
- Topics, this broker or "" for all brokers, groups: under the rules of IncrementalAlterConfigs. The log's level is not
  changed this way, as in Kafka.
- A resource that is named twice is INVALID_REQUEST; Kafka leaves such a request unanswered.
"""

from collections import Counter

from broker.completion import Completion, all_of
from broker.config_resources import check_request, find_resource, prepare_replacement
from broker.dispatch import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from protocol.generated.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse


def handle(context: RequestContext, request: AlterConfigsRequest) -> Completion[AlterConfigsResponse]:
    named = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    answers = [
        _alter(context, resource, named[resource.resource_type, resource.resource_name] == 1, request.validate_only)
        for resource in request.resources
    ]
    return all_of(answers).map(lambda responses: AlterConfigsResponse(responses=responses))


def _alter(
    context: RequestContext, resource: AlterConfigsResource, is_single: bool, validate_only: bool
) -> Completion[AlterConfigsResourceResponse]:
    try:
        if not is_single:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        written = _decide(context, resource, validate_only)
    except KafkaError as error:
        return Completion.of(_answer(resource, error.code, str(error)))
    return written.map(lambda _: _answer(resource, ErrorCode.NONE, None))


def _decide(context: RequestContext, resource: AlterConfigsResource, validate_only: bool) -> Completion[None]:
    broker = context.broker
    kind, name = resource.resource_type, resource.resource_name
    check_request(
        [item.name for item in resource.configs], [item.name for item in resource.configs if item.value is None]
    )
    found = find_resource(kind, name, broker.metadata.state, broker.config, broker.node_id)
    difference = prepare_replacement(found, {item.name: item.value or "" for item in resource.configs})
    if validate_only or not difference:
        return Completion.of(None)
    return broker.live_config.change(kind, name, difference)


def _answer(resource: AlterConfigsResource, code: ErrorCode, message: str | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
