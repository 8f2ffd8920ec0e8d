"""What a broker speaks: the versions of each API and its features, as its ApiVersions response says.

A client picks the highest version that both know, inside the range that the caller can work with (KIP-35). Versions
that are still unstable are not picked.
"""

from collections.abc import Mapping
from typing import Final

from headrace.client.errors import UnsupportedVersionError
from headrace.protocol.apis import API_BY_NAME, APIS
from headrace.protocol.messages.api_versions import ApiVersionsResponse

_SUFFIX: Final = "Request"


class BrokerVersions:
    """Immutable, apart from remembering what was picked before."""

    __slots__ = ("_picked", "_ranges", "features")

    def __init__(self, response: ApiVersionsResponse) -> None:
        self._ranges: Mapping[int, tuple[int, int]] = {
            row.api_key: (row.min_version, row.max_version) for row in response.api_keys
        }
        # Finalized features: name -> level, such as transaction.version -> 2. Clients decide by these (KIP-584).
        self.features: Mapping[str, int] = {row.name: row.max_version_level for row in response.finalized_features}
        self._picked: dict[tuple[int, int, int | None], int] = {}

    def range_of(self, api_key: int) -> tuple[int, int] | None:
        """The lowest and the highest version that the broker serves; None if it does not serve the API."""
        return self._ranges.get(api_key)

    def pick(self, api_key: int, lowest: int = 0, highest: int | None = None) -> int:
        """The version to use. Raises UnsupportedVersionError, which says who cannot do what."""
        try:
            return self._picked[api_key, lowest, highest]
        except KeyError:
            version = self._picked[api_key, lowest, highest] = self._pick(api_key, lowest, highest)
            return version

    def _pick(self, api_key: int, lowest: int, highest: int | None) -> int:
        api = APIS[api_key]
        least = max(lowest, api.min_version)
        most = api.max_stable_version if highest is None else min(highest, api.max_stable_version)
        served = self._ranges.get(api_key)
        if served is None:
            raise UnsupportedVersionError(
                f"The broker does not serve {api.name}; it is older than this call, or leaves the API out."
            )
        version = min(most, served[1])
        if version < max(least, served[0]):
            raise UnsupportedVersionError(
                f"The broker serves {api.name} in versions {served[0]}-{served[1]}, {least}-{most} are needed here; "
                f"{'use a newer broker' if served[1] < least else 'use a newer version of Headrace'}."
            )
        return version


class _KeysByRequest(dict[type, int]):
    """From the class of a request to its API, which its name says."""

    def __missing__(self, request: type) -> int:
        key = self[request] = API_BY_NAME[request.__name__.removesuffix(_SUFFIX)].key
        return key


KEY_OF: Final = _KeysByRequest()  # KEY_OF[MetadataRequest] == 3
