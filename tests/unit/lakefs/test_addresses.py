from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from lakesweep.errors import IncompleteError
from lakesweep.lakefs.addresses import StorageNamespace, creation_times, may_be_deleted

S3 = StorageNamespace("s3://lake/repos/r")


def full(*addresses: str) -> tuple[pa.Array, pa.Array]:
    return pa.array(addresses), pa.array(["full"] * len(addresses))


def relative(*addresses: str) -> tuple[pa.Array, pa.Array]:
    return pa.array(addresses), pa.array(["relative"] * len(addresses))


def test_a_relative_address_is_its_own_key() -> None:
    assert S3.keys(*relative("data/a", "b0")).to_pylist() == ["data/a", "b0"]


@pytest.mark.parametrize("location", ["s3://lake/repos/r", "s3a://lake/repos/r/"])
@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_a_full_address_inside_names_a_key_in_every_spelling(location: str, scheme: str) -> None:
    inside = StorageNamespace(location).keys(*full(f"{scheme}://lake/repos/r/outside-data/x"))
    assert inside.to_pylist() == ["outside-data/x"]


def test_what_only_begins_alike_is_outside() -> None:
    found = S3.keys(*full("s3://lake/repos/r2/data/x", "s3://lake/repos/r", "gs://lake/repos/r/x"))
    assert found.to_pylist() == [None, None, None]


def test_relative_and_full_ones_mix() -> None:
    addresses = pa.array(["data/a", "s3://lake/repos/r/data/b", "s3://other/c"])
    types = pa.array(["relative", "full", "full"])
    assert S3.keys(addresses, types).to_pylist() == ["data/a", "data/b", None]


def test_azure_has_two_spellings() -> None:
    azure = StorageNamespace("abfss://c@acct.dfs.core.windows.net/p")
    found = azure.keys(*full("https://acct.blob.core.windows.net/c/p/data/x"))
    assert found.to_pylist() == ["data/x"]


def test_both_readings_of_an_odd_address_are_protected() -> None:
    protected = S3.protected(*full("s3://lake/repos/r/data/a%41", "s3://lake/repos/x/../r/data/b"))
    assert {"data/a%41", "data/aA", "data/b"} <= set(protected.to_pylist())


@pytest.mark.parametrize("address", ["/data/b", "//data/b", "data//b"])
def test_slashes_that_servers_once_took_off_hide_no_object(address: str) -> None:
    assert {address, "data/b"} <= set(S3.protected(*relative(address)).to_pylist())
    assert "data/b" in S3.protected(*full(f"s3://lake/repos/r/{address}")).to_pylist()


def test_a_query_does_not_hide_an_object() -> None:
    assert "data/b" in S3.protected(*full("s3://lake/repos/r/data/b?versionId=1")).to_pylist()


class TestLocalDisk:
    def test_the_servers_own_spelling_of_our_folder_is_known(self) -> None:
        local = StorageNamespace("/srv/lakefs/r")
        found = local.keys(*full("local:///srv/lakefs/r/data/x", "file:///srv/lakefs/r/data/y"))
        assert found.to_pylist() == ["data/x", "data/y"]

    def test_an_address_of_an_unknown_root_is_refused(self) -> None:
        with pytest.raises(IncompleteError, match="is unknown"):
            StorageNamespace("/mnt/lakefs/r").keys(*full("local:///srv/lakefs/r/data/x"))

    def test_with_the_root_known_it_is_told_apart(self) -> None:
        local = StorageNamespace("/mnt/lakefs/r", ("local://r", "local:///srv/lakefs/r"))
        found = local.keys(
            *full("local:///srv/lakefs/r/data/x", "local:///srv/in/y", "local://r/z")
        )
        assert found.to_pylist() == ["data/x", None, "z"]

    @pytest.mark.parametrize("root", ["/lakefs/data", "/srv/link", "relative/data"])
    def test_a_server_that_has_another_name_for_the_root_is_refused(self, root: str) -> None:
        """As one in a container: what it calls so may be any of our objects."""
        local = StorageNamespace("/srv/lakefs/a/r", ("local://a/r", "local:///srv/lakefs/a/r"))
        with pytest.raises(IncompleteError, match="is unknown") as error:
            local.keys(*full(f"local://{root}/a/r/data/x"))
        assert "local_root" in str(error.value.hint)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("data/slice/d6ujdg1ksduculm4ut40", True),
        ("data/!ab/c/slice/x,signature", True),
        ("data/a\nb", True),
        ("data/", False),
        ("data/x/", False),
        ("data", False),
        ("database/x", False),
        ("", False),
        ("data/../_lakefs/x", False),
        ("data/./x", False),
        ("data/x/..", False),
        ("data/a..b", True),
        ("_lakefs/00fb7eff", False),
        ("dummy", False),
        ("/data/x", False),
        ("s3://lake/repos/r/data/x", False),
        ("b0c968736d8f42a2b1c6284835f08226", False),
    ],
)
def test_only_what_the_server_wrote_may_go(address: str, expected: bool) -> None:
    assert may_be_deleted(*relative(address)).to_pylist() == [expected]
    assert may_be_deleted(*full(address)).to_pylist() == [False]


def test_the_clock_in_a_name() -> None:
    times = creation_times(
        pa.array(
            [
                "data/gcnobu7n2efc74lfa5ug/csfnri7n2efc74lfa69g",
                "data/s/csfnri7n2efc74lfa69g,AbC-_9",
                "data/s/csfnri7n2efc74lfa69h",
                "data/s/csfnri7n2efc74lfa69gg",
                "b0c968736d8f42a2b1c6284835f08226",
                None,
            ]
        )
    )
    moment = datetime(2024, 10, 28, 12, 4, 24, tzinfo=UTC)
    assert times.to_pylist() == [moment, moment, None, None, None, None]


def test_no_names_have_no_clocks() -> None:
    assert creation_times(pa.array([], pa.string())).to_pylist() == []
