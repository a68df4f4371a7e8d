from __future__ import annotations

import msgspec
import pytest

from lakesweep.store.objects.object_types import ObjectTypes
from tests.stores import Paper


class Loose(msgspec.Struct):
    """Not frozen."""


@pytest.mark.parametrize("name", ["", "a", "Paper", "1st", "a b", "a_b", "x" * 65, "p\n"])
def test_names_of_types_are_plain(name: str) -> None:
    with pytest.raises(ValueError, match="is not a type name"):
        ObjectTypes({name: Paper})


def test_only_frozen_structs_are_stored() -> None:
    with pytest.raises(ValueError, match="Loose is not frozen"):
        ObjectTypes({"loose": Loose})


def test_a_struct_has_one_name() -> None:
    with pytest.raises(ValueError, match="two names"):
        ObjectTypes({"paper": Paper, "sheet": Paper})


def test_what_could_not_be_read_again_is_not_written() -> None:
    with pytest.raises(TypeError, match=r"a paper does not match .*: Expected `str`, got `int`"):
        ObjectTypes({"paper": Paper}).encode(Paper(text=5))  # type: ignore[arg-type]
