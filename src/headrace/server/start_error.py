"""What whoever starts a broker is told when that cannot be."""


class StartError(Exception):
    """Why a broker cannot start, or cannot go on, and what to do."""
