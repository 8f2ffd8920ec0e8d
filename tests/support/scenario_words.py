"""Words that all stories use."""

from headrace.protocol.error_codes import ErrorCode
from tests.support.group_driver import START_MS


def code_text(code: int) -> str:
    return ErrorCode(code).name if code else "ok"


def time_text(at_ms: int) -> str:
    return "unknown" if at_ms < 0 else f"+{at_ms - START_MS} ms"


def named(member_id: str, instance_id: str | None) -> str:
    return member_id if instance_id is None else f"{member_id}({instance_id})"
