"""A request that is refused in the middle of a decision: nothing is written, and the client is told why."""

from headrace.protocol.error_codes import ErrorCode


class RefusedError(Exception):
    """Raised by what a decision is made of, and answered where the decision began."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
