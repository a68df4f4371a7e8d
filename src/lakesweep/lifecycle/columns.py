"""The Arrow schemas of a lifecycle run.

The first five are the tables of the policy's history and of the commits, as small as the
policy and the refs. The others grow with the repository and stay in datasets and on Spark.
"""

from __future__ import annotations

import pyarrow as pa

from lakesweep.sweep.columns import HASHES, VERDICTS

_MOMENT = pa.timestamp("us", tz="UTC")


def _key(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


#: Which run wrote a row. All tables that people read have it.
RUN_ID = _key("run_id", pa.string())

#: What a policy said on the day of a run. `branch` is null for all branches, and a name or pattern
#: else; `tag` names tags in rows of their own.
POLICY_TABLE = pa.schema(
    [
        RUN_ID,
        _key("rule_id", pa.string()),
        _key("prefix", pa.string()),
        pa.field("branch", pa.string()),
        pa.field("tag", pa.string()),
        _key("days", pa.int64()),
        _key("date_to_be_deleted", _MOMENT),
        _key("policy_sha256", pa.string()),
        _key("started", _MOMENT),
    ]
)

#: The rules of a run, with the date up to which the last run that swept has deleted.
CURRENT_RULE = pa.schema(
    [
        _key("prefix", pa.string()),
        pa.field("branch", pa.string()),
        _key("date_to_be_deleted", _MOMENT),
        pa.field("last_deleted", _MOMENT),
    ]
)

#: The earliest of these dates for each branch; null for all of its history.
BRANCH_LAST = pa.schema([pa.field("branch", pa.string()), pa.field("last_deleted", _MOMENT)])

#: The commits of a repository. `potential` are those that may hold what the last run left;
#: `branches` are all that reach the commit.
COMMITS = pa.schema(
    [
        _key("commit_id", pa.string()),
        _key("metarange_id", pa.string()),
        _key("created", _MOMENT),
        _key("potential", pa.bool_()),
        _key("branches", pa.list_(pa.string())),
    ]
)

#: What keeps the commits of a metarange, as bits: see `keepers`.
METARANGES = pa.schema([_key("metarange_id", pa.string()), _key("keepers", pa.binary())])

#: Something of a range: what keeps a metarange that has it, or where its entries are.
HELD = pa.schema(
    [
        _key("range_id", pa.string()),
        pa.field("keepers", pa.binary()),
        pa.field("chunk", pa.int64()),
        pa.field("place", pa.int32()),
    ]
)

#: Which ranges a metarange has.
EDGES = pa.schema(
    [
        _key("metarange_id", pa.string()),
        _key("range_id", pa.string()),
        _key("min_key", pa.binary()),
        _key("count", pa.int64()),
        _key("estimated_size", pa.int64()),
    ]
)

#: A range whose entries are at hand, in which chunk of them and at which place; what it holds.
PARSED = pa.schema(
    [
        _key("range_id", pa.string()),
        _key("chunk", pa.int64()),
        _key("place", pa.int32()),
        _key("entries", pa.int64()),
        _key("size_bytes", pa.int64()),
    ]
)

#: The entries of a chunk of ranges, each once. `members` has a bit for each range of the chunk that
#: holds it. `address` is a key below the namespace, `standing` one of Standing; `age` is the latest
#: clock of the entry, null where one of them cannot be believed.
FOLDED = pa.schema(
    [
        _key("chunk", pa.int64()),
        _key("members", pa.binary()),
        _key("path", pa.binary()),
        _key("address", pa.string()),
        _key("standing", pa.int32()),
        _key("size_bytes", pa.int64()),
        pa.field("modified", _MOMENT),
        pa.field("age", _MOMENT),
    ]
)


class Standing:
    """What an entry may say of its address: only protect it, or let it go."""

    PROTECTS = 0
    OWN = 1


#: The ranges of the cache with what keeps them.
PLACED = pa.schema(
    [_key("chunk", pa.int64()), _key("place", pa.int32()), _key("keepers", pa.binary())]
)

#: What one entry, or one staged change, says of an address: the least `rank` counts (see `ranks`).
#: `path` and what keeps it there are null where this alone keeps the address.
OCCURRENCES = pa.schema(
    [
        *HASHES,
        pa.field("address", pa.string()),
        _key("rank", pa.int64()),
        pa.field("age", _MOMENT),
        pa.field("size_bytes", pa.int64()),
        _key("candidate", pa.bool_()),
        pa.field("path", pa.binary()),
        pa.field("keepers", pa.binary()),
    ]
)

#: A verdict on an address that some rule covers. `modified` is the age that it was judged by.
#: `due_before` is null where no time would do: whatever else is known of the object's age must be
#: before it as well. `holder` is the ref that keeps it longest.
JUDGED = pa.schema(
    [
        *HASHES,
        _key("address", pa.string()),
        *(VERDICTS.field(name) for name in ("verdict", "reason", "rule", "size_bytes", "modified")),
        pa.field("due_before", _MOMENT),
        pa.field("holder", pa.string()),
        pa.field("prefix", pa.string()),
    ]
)

#: How many objects and bytes have a verdict, by what it comes from.
TOTALS = pa.schema(
    [
        _key("verdict", pa.string()),
        _key("reason", pa.string()),
        pa.field("rule", pa.string()),
        pa.field("prefix", pa.string()),
        pa.field("holder", pa.string()),
        _key("objects", pa.int64()),
        _key("bytes", pa.int64()),
    ]
)

#: An entry of a HEAD whose object is deleted, in a range that holds it.
HEAD_ENTRIES = pa.schema([*HASHES, _key("path", pa.binary()), _key("range_id", pa.string())])

#: An address that a policy expires, with all its paths, and the rules that expire it on each.
EXPIRED = pa.schema(
    [
        *HASHES,
        _key("address", pa.string()),
        _key("paths", pa.list_(pa.string())),
        _key("matched_rules", pa.list_(pa.string())),
        pa.field("size_bytes", pa.int64()),
        pa.field("age", _MOMENT),
        _key("due_before", _MOMENT),
        _key("reason", pa.string()),
    ]
)

#: An address that a plan deletes. `waits_for_heads` says that its paths are removed from HEADs
#: first, and that a later run deletes it.
ADDRESSES = pa.schema(
    [
        RUN_ID,
        *(field for field in EXPIRED if field.name not in HASHES.names),
        _key("waits_for_heads", pa.bool_()),
    ]
)

#: One thing that keeps an address or lets it go. `rule` and `before` are null where no rule covers
#: the path on that ref; `commit_id` is null for what is staged.
EVIDENCE = pa.schema(
    [
        _key("address", pa.string()),
        _key("path", pa.string()),
        pa.field("commit_id", pa.string()),
        pa.field("created", _MOMENT),
        _key("ref_kind", pa.string()),
        pa.field("ref", pa.string()),
        pa.field("rule", pa.string()),
        pa.field("before", _MOMENT),
        pa.field("age", _MOMENT),
        _key("keeps", pa.bool_()),
        _key("why", pa.string()),
    ]
)
