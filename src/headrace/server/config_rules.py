"""What a broker checks of a config change before the controller sees it, and in which words it tells what is wrong.

A broker's own configs, and the levels of its loggers, are changed through that broker; a change for all brokers goes
through any of them. What is wrong with the config of a broker is an INVALID_REQUEST, where the same fault in a topic or
group is an INVALID_CONFIG: Kafka's brokers and controllers differ in this, and its tools have got used to it.
"""

from collections import Counter
from collections.abc import Iterable

from headrace.cluster.config_changes import DELETE, SET
from headrace.cluster.image import ConfigKind
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from headrace.server import loggers


class RuleError(Exception):
    """Why a change is refused: Kafka's code, and a sentence for the one who asked."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def find_foreign_broker(kind: int, name: str, node_id: int) -> str | None:
    """What is wrong if this broker is asked to change the configs of another."""
    if kind == ConfigKind.BROKER and name not in ("", str(node_id)):
        return f"this is broker {node_id}, which does not change the configs of broker {name!r}"
    return None


def code_to_tell(kind: int, code: int) -> int:
    """The code for a fault that the controller found."""
    is_renamed = code == ErrorCode.INVALID_CONFIG and kind in (ConfigKind.BROKER, ConfigKind.CLIENT_METRICS)
    return ErrorCode.INVALID_REQUEST if is_renamed else code


def repeated(resources: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    return {resource for resource, times in Counter(resources).items() if times > 1}


def change_loggers(row: AlterConfigsResource, node_id: int, *, validate_only: bool) -> None:
    """Give loggers other levels: all that the row names, or none. Raises RuleError."""
    if row.resource_name != str(node_id):
        reason = f"this is broker {node_id}, which does not change the loggers of broker {row.resource_name!r}"
        raise RuleError(ErrorCode.INVALID_REQUEST, reason)
    known = loggers.levels()
    for config in row.configs:
        _check_logger(config, known)
    if not validate_only:
        for config in row.configs:
            loggers.set_level(config.name, config.value if config.config_operation == SET else None)


def _check_logger(config: AlterableConfig, known: Iterable[str]) -> None:
    if config.config_operation not in (SET, DELETE):
        raise RuleError(ErrorCode.INVALID_REQUEST, f"the level of {config.name} is set or deleted, nothing else")
    if config.name not in known:
        raise RuleError(ErrorCode.INVALID_CONFIG, f"there is no logger {config.name!r}")
    if config.config_operation == DELETE:
        if config.name == loggers.ROOT:
            raise RuleError(ErrorCode.INVALID_REQUEST, "the root logger must have a level")
    elif config.value not in loggers.LEVELS:
        levels = ", ".join(loggers.LEVELS)
        raise RuleError(ErrorCode.INVALID_CONFIG, f"{config.name} cannot be {config.value!r}; levels are {levels}")
