"""Who a consumer is in its group. What a transaction says, too, when it commits what was consumed."""

from typing import NamedTuple


class GroupMember(NamedTuple):
    """The group, and the member in its generation; of the protocol `consumer` (KIP-848) it is the member's epoch.

    A member of an older generation is refused, so that two of them cannot process the same records. Without a
    generation there is no membership: who assigns partitions by hand commits as nobody.
    """

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None
