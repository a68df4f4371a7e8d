"""`lakesweep init`: write a commented configuration to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.errors import UsageError

TEMPLATE = """\
# What Lakesweep should know. Every section may be left out.
# "${NAME}" in a value is replaced by the environment variable NAME, so no secret need stand here.
# Durations are written 90s, 15m, 6h, 7d.

[store]                                    # where Lakesweep keeps its own records
url = "sqlite:///.lakesweep/store.db"      # or postgresql://, mysql://, mongodb://, dynamodb://
realm = "default"                          # lakesweep store init creates both

[spark]
master = "local[*]"                        # or, instead of master: remote = "sc://host:15002"
conf = { "spark.driver.memory" = "2g" }

# What of the store's own database lakesweep store maintain keeps.
#
# [maintenance]
# created_at_grace_time = "3h"             # younger rows are never deleted
# keep_commits = 21                        # of each log, the newest
# keep_age = "7d"                          # and those that were the head since then
# object_scan_rate_limit_per_second = 5000 # press the database no harder than this
#
# [maintenance.history."cat/*/heads/main"] # other values for some references
# age = "30d"

# How to reach a bucket. What is left out comes from the variables of the store's own SDK,
# such as AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS or AZURE_STORAGE_ACCOUNT_KEY.
#
# [storage."s3://lake"]
# endpoint = "http://127.0.0.1:9000"
# region = "eu-central-1"
# access_key_id = "${LAKE_KEY_ID}"
# secret_access_key = "${LAKE_SECRET}"
# files_per_second = 2000                  # delete no faster than this
# batches_per_second = 20

# A lake: the locations to keep clean, and the roots that keep files in them alive.
# Everything that may reference a file in these locations must be listed as a root.
#
# [lakes.prod]
# locations = ["s3://lake/warehouse"]
# grace = "7d"                             # younger files are never deleted
# exclude = ["**/_staging/**"]
# unknown = "keep"                         # files of no known kind, hidden ones: keep, or delete
# plans = "s3://lake/_lakesweep/plans"     # where plans go; by default .lakesweep/plans beside this
# keep_plans = "30d"                       # older ones go, but for the last ten
# quarantine = "s3://lake/_lakesweep/quarantine"   # what apply --quarantine sets aside
#
# [[lakes.prod.roots]]
# type = "iceberg-catalog"                 # anything that PyIceberg's load_catalog takes
# name = "prod"
# properties = { type = "rest", uri = "http://127.0.0.1:8181", token = "${CATALOG_TOKEN}" }
#
# [[lakes.prod.roots]]
# type = "iceberg-metadata"                # tables and views that no catalog lists
# files = ["s3://lake/legacy/t/metadata/00003.metadata.json"]
#
# [[lakes.prod.roots]]
# type = "iceberg-scan"                    # tables that nobody lists any more, found by their files
# path = "s3://lake/warehouse"
# keep = true                              # false: only report them
#
# [[lakes.prod.roots]]
# type = "lakesweep"                       # tables and views in the catalogs of a realm of [store]
# realm = "default"                        # by default the realm of [store]; url: another database
# catalogs = ["shop"]                      # by default all of them
#
# [[lakes.prod.roots]]
# type = "paimon-warehouse"                # all tables of a warehouse, a database, or one table
# path = "s3://lake/paimon"
#
# [[lakes.prod.roots]]
# type = "lakefs"                          # credentials: LAKECTL_CREDENTIALS_ACCESS_KEY_ID, …
# endpoint = "http://127.0.0.1:8000"       # or, without a server: namespaces = ["s3://lake/repo"]
# repositories = ["analytics"]
#
# [[lakes.prod.roots]]
# type = "pinned"                          # a text or Parquet file of addresses and prefixes
# file = "s3://lake/_lakesweep/keep.txt"
"""


def init(
    context: Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")
    ] = Path("lakesweep.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented lakesweep.toml to begin with."""
    try:
        with output.open("w" if force else "x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError:
        raise UsageError(f"{output} is there already", hint="--force replaces it") from None
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from error
    context.output.result({"written": str(output)})
    context.output.say(f"wrote {output}; edit it, then run: lakesweep store init; lakesweep doctor")
