"""What tasks need to reach stores and catalogs, wherever they run.

It travels pickled inside functions and data sources, which Spark neither shows in plans nor
logs. Read options would be shown.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakesweep.spark.error_translation import translating
from lakesweep.storage.stores import Stores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

#: Endpoints and credentials for the SDKs of stores, without those that refer to local files.
_CARRIED = re.compile(
    r"AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|REGION|DEFAULT_REGION"
    r"|ENDPOINT_URL(_S3)?|REQUEST_CHECKSUM_CALCULATION)"
    r"|AZURE_STORAGE_\w+"
)
#: Variables that show that a machine has credentials of its own, by family.
_OWN = {
    "AWS_": re.compile(r"AWS_(ACCESS_KEY_ID|PROFILE|ROLE_ARN|CONTAINER_CREDENTIALS_\w+)"),
    "AZURE_": re.compile(r"AZURE_(STORAGE_\w+|CLIENT_ID|FEDERATED_TOKEN_FILE)"),
}
#: Threads of a task run concurrently: none may see half of what another sets.
_SETTING = threading.Lock()


def _own_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if _CARRIED.fullmatch(name)}


@dataclass(frozen=True)
class ExecutorAccess:
    """The stores and catalogs as one process knows them, for use by others.

    The environment variables of that process are included, for machines without credentials of
    their own. `parts` is how many tasks are worthwhile.
    """

    opener: Stores = field(default_factory=Stores, repr=False)
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    parts: int = 32
    variables: Mapping[str, str] = field(default_factory=_own_variables, repr=False)

    def limit_tasks(self, slots: int) -> None:
        """Divide the limits of the stores among the tasks that run at once."""
        self.opener.load.tasks = slots if self.most_tasks is None else min(slots, self.most_tasks)

    @property
    def most_tasks(self) -> int | None:
        """How many tasks may run at once; None is no limit."""
        return self.opener.most_tasks

    @property
    def stores(self) -> Stores:
        """The stores, on any machine."""
        self.prepare()
        return self.opener

    def collect(self, frame: DataFrame) -> list[Row]:
        """All rows of a DataFrame; the tasks that make them share the limits of the stores."""
        with translating(), self.opener.load.divided():
            return frame.collect()

    def prepare(self) -> None:
        """Make other stores that came with this access reachable too."""
        with _SETTING:
            self._set_variables()

    def _set_variables(self) -> None:
        for family, own in _OWN.items():
            if not any(own.fullmatch(name) for name in os.environ):
                carried = (pair for pair in self.variables.items() if pair[0].startswith(family))
                for name, value in carried:
                    os.environ.setdefault(name, value)
