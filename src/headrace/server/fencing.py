"""What a producer is told that is not the last one any more.

Clients that are older than the code PRODUCER_FENCED know the same thing as INVALID_PRODUCER_EPOCH.
"""

from headrace.protocol.error_codes import ErrorCode


def fencing_code(code: int, *, is_old_client: bool) -> ErrorCode:
    is_fenced = code == ErrorCode.PRODUCER_FENCED
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_fenced and is_old_client else ErrorCode(code)
