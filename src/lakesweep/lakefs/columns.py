"""The Arrow schemas of entries, staged entries and ranges."""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

_MOMENT = pa.timestamp("us", tz="UTC")


class AddressType(StrEnum):
    """Whether an entry's address is a key in the namespace, or a full address."""

    RELATIVE = "relative"
    FULL = "full"


#: The objects of a range, in the order of their paths' bytes. A path may be any bytes.
#: `address` is as stored, and `address_type` one of AddressType: the old type that left it to
#: the address itself is resolved. `modified` is null where the entry does not say, and may have
#: been set by a client. `identity` is a hash of size, checksum and metadata, not of the address:
#: two entries with one identity may have different addresses.
ENTRIES = pa.schema(
    [
        pa.field("path", pa.binary(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("address_type", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("checksum", pa.string(), nullable=False),
        pa.field("modified", _MOMENT),
        pa.field("identity", pa.binary(), nullable=False),
    ]
)

#: What is visible on a branch and differs from its HEAD. Addresses are full, as servers return
#: them, even inside the namespace.
STAGED = pa.schema(
    [
        pa.field("branch", pa.string(), nullable=False),
        *(field for field in ENTRIES if field.name != "identity"),
    ]
)

#: The ranges of a metarange, in the order of their keys, which do not overlap.
RANGES = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("estimated_size", pa.int64(), nullable=False),
    ]
)
