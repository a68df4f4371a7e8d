from __future__ import annotations

import pytest

from lakesweep.config.file import find_line, spell

_TEXT = """\
top = 1
# lakes.prod.grace = "not here"
[store]
url = "x"
[storage."s3://a.b"]
endpoint = "y"
[lakes.prod]
grace = "7d"
locations = [
  "one",
]
[[lakes.prod.roots]]
type = "a"
[[lakes.prod.roots]]
type = "b"
properties = { uri = "z" }
[lakes.prod.roots.deep]
x = 1
[ 'quoted' ."name" ]
dotted.key = 2
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 1),
        (("store",), 3),
        (("store", "url"), 4),
        (("storage", "s3://a.b", "endpoint"), 6),
        (("lakes",), 7),
        (("lakes", "prod", "grace"), 8),
        (("lakes", "prod", "locations", 0), 9),
        (("lakes", "prod", "roots", 0, "type"), 13),
        (("lakes", "prod", "roots", 1, "type"), 15),
        (("lakes", "prod", "roots", 1, "properties", "uri"), 16),
        (("lakes", "prod", "roots", 1, "deep", "x"), 18),
        (("lakes", "prod", "roots", 1, "absent"), 14),
        (("quoted", "name", "dotted", "key"), 20),
        (("nowhere",), None),
    ],
)
def test_a_key_is_found_on_its_line_or_at_the_nearest_around_it(
    path: tuple[str | int, ...], line: int | None
) -> None:
    assert find_line(_TEXT, path) == line


def test_a_path_is_spelled_as_people_write_it() -> None:
    path = ("storage", "s3://lake", "roots", 0, "name")
    assert spell(path) == 'storage."s3://lake".roots[0].name'
