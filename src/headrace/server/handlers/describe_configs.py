"""DescribeConfigs (key 32, versions 1-4): the configs of topics, brokers, their loggers, groups and subscriptions.

Behaviour   each resource by itself, all of its configs or those that are named; names that nobody knows are left out;
            a broker answers for itself, and without a name tells what was set for all brokers; secrets are blank
            what is named twice, or beside MAX_RESOURCES others, is refused: for five bytes there may be 40,000 to tell
Versions    3 tells types, and what configs are for
Left out    nothing
"""

from collections.abc import Iterable
from typing import Final

from headrace.cluster.config_resolution import ConfigSource, ResolvedConfig
from headrace.cluster.image import ConfigKind, ConfigResource
from headrace.cluster.unserved_configs import documentation_of
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from headrace.server import loggers
from headrace.server.config_rules import repeated
from headrace.server.context import RequestContext
from headrace.server.described_configs import UndescribedError, check_own_node, describe

MAX_RESOURCES: Final = 10_000  # as many topics as a broker is known to have


def handle(request: DescribeConfigsRequest, ctx: RequestContext) -> DescribeConfigsResponse:
    unknown = {row.resource_type for row in request.resources} - set(ConfigKind)
    reason = f"there are no configs of resource type {min(unknown)}" if unknown else None
    if len(request.resources) > MAX_RESOURCES:
        reason = f"one request asks for the configs of {MAX_RESOURCES} resources at most, not {len(request.resources)}"
    if reason is not None:
        refused = UndescribedError(ErrorCode.INVALID_REQUEST, reason)
        return DescribeConfigsResponse(results=[_refuse(row, refused) for row in request.resources])
    twice = repeated((row.resource_type, row.resource_name) for row in request.resources)
    named_twice = UndescribedError(ErrorCode.INVALID_REQUEST, "the request names this resource twice")
    return DescribeConfigsResponse(
        results=[
            _refuse(row, named_twice) if row[:2] in twice else _describe(row, request, ctx) for row in request.resources
        ]
    )


def _describe(
    row: DescribeConfigsResource, request: DescribeConfigsRequest, ctx: RequestContext
) -> DescribeConfigsResult:
    names = set(row.configuration_keys or ()) or None
    settings = ctx.broker.controller.settings
    try:
        if row.resource_type == ConfigKind.BROKER_LOGGER:
            check_own_node(row.resource_name, settings)
            configs = _loggers(names)
        else:
            resource = ConfigResource(row.resource_type, row.resource_name)
            found = describe(resource, names, ctx.image, settings)
            configs = [_config(each, request) for each in found]
    except UndescribedError as error:
        return _refuse(row, error)
    return DescribeConfigsResult(ErrorCode.NONE, None, row.resource_type, row.resource_name, configs)


def _config(found: ResolvedConfig, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = [DescribeConfigsSynonym(*each) for each in found.synonyms] if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=found.key.name,
        value=found.value,
        read_only=found.key.is_read_only,
        config_source=found.source,
        is_sensitive=found.key.is_sensitive,
        synonyms=synonyms,
        config_type=found.key.type,
        documentation=documentation_of(found.key) if request.include_documentation else None,
    )


def _loggers(names: Iterable[str] | None) -> list[DescribeConfigsResourceResult]:
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        DescribeConfigsResourceResult(name, level, config_source=source)
        for name, level in loggers.levels().items()
        if names is None or name in names
    ]


def _refuse(row: DescribeConfigsResource, error: UndescribedError) -> DescribeConfigsResult:
    return DescribeConfigsResult(error.code, error.reason, row.resource_type, row.resource_name)
