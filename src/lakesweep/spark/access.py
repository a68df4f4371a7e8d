"""What tasks need to reach stores and catalogs, wherever they run.

It travels pickled inside functions and data sources, which Spark neither shows in plans nor writes
to logs. Options of a read would be shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.storage.stores import Stores

#: What tells the SDKs of stores who is asking, complete in itself: no names of files or profiles.
_CREDENTIALS = re.compile(
    r"AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|REGION|DEFAULT_REGION"
    r"|ENDPOINT_URL(_S3)?|REQUEST_CHECKSUM_CALCULATION)"
    r"|AZURE_STORAGE_\w+"
)
_FAMILIES = ("AWS_", "AZURE_")


def _own_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if _CREDENTIALS.fullmatch(name)}


@dataclass(frozen=True)
class Access:
    """The stores and catalogs as one process knows them, for others to use.

    The variables of that process come along, for machines that have none of their family: those
    would reach the stores as somebody else. `parts` is how many tasks are worth having.
    """

    opener: Stores = field(default_factory=Stores, repr=False)
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    parts: int = 32
    variables: Mapping[str, str] = field(default_factory=_own_variables, repr=False)

    @property
    def stores(self) -> Stores:
        """The stores, on whatever machine this is."""
        for family in _FAMILIES:
            if not any(name.startswith(family) for name in os.environ):
                given = self.variables.items()
                os.environ.update({n: value for n, value in given if n.startswith(family)})
        return self.opener
