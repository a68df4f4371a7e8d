"""A server of each kind, started when the first test needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clouds.servers import SERVERS, Cloud


@pytest.fixture(scope="session", params=list(SERVERS))
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    """Each server in turn."""
    with SERVERS[request.param]() as server:
        yield server


@pytest.fixture(autouse=True, scope="session")
def no_credentials_of_this_machine() -> Iterator[None]:
    """Nothing in the environment leads elsewhere, and no metadata service can be reached."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST"):
            patch.delenv(name, raising=False)
        patch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield
