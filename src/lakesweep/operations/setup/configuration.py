"""Write a configuration to start from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from lakesweep.errors import UsageError

TEMPLATE = """\
# The configuration of Lakesweep. Every section is optional.
# "${NAME}" in a value is replaced by the environment variable NAME, so keep secrets there.
# Durations are written 90s, 15m, 6h, 7d.

# engine = "local"                         # sweep in this process, without Spark and Java

[store]                                    # where Lakesweep keeps its own records
url = "sqlite:///.lakesweep/store.db"      # or postgresql://, mysql://, mongodb://, dynamodb://
realm = "default"                          # lakesweep store init creates both

[spark]
master = "local[*]"                        # or, instead of master: remote = "sc://host:15002"
conf = { "spark.driver.memory" = "2g" }

# What `lakesweep store maintain` keeps in the store's own database.
#
# [maintenance]
# created_at_grace_time = "3h"             # younger rows are never deleted
# keep_commits = 21                        # the newest commits of each log
# keep_age = "7d"                          # and those that were the head in this time
# object_scan_rate_limit_per_second = 5000 # limits the load on the database
#
# [maintenance.history."cat/*/heads/main"] # overrides for some references
# age = "30d"

# The most that reading one file of others may take. A root with a larger file is incomplete.
#
# [limits]
# file_bytes = 1073741824                  # a metadata file, manifest list or manifest
# inflated_bytes = 1073741824              # the same, decompressed
# block_bytes = 536870912                  # one block or page of it, decompressed

# How to reach a bucket. Missing settings come from the variables of the store's own SDK,
# such as AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS or AZURE_STORAGE_ACCOUNT_KEY.
#
# [storage."s3://lake"]
# endpoint = "http://127.0.0.1:9000"
# region = "eu-central-1"
# access_key_id = "${LAKE_KEY_ID}"
# secret_access_key = "${LAKE_SECRET}"
# files_per_second = 2000                  # rate limit for deletes
# requests_per_second = 500                # rate limit for all requests
# batches_per_second = 20

# A lake: the locations to keep clean, and the roots that keep files in them alive.
# Everything that may reference a file in these locations must be listed as a root.
#
# [lakes.prod]
# locations = ["s3://lake/warehouse"]
# grace = "7d"                             # younger files are never deleted
# exclude = ["**/_staging/**"]
# unknown = "keep"                         # files of no known kind, hidden ones: keep, or delete
# plans = "s3://lake/_lakesweep/plans"     # by default .lakesweep/plans beside this file
# keep_plans = "30d"                       # older plans are deleted, except the last ten
# quarantine = "s3://lake/_lakesweep/quarantine"   # where apply --quarantine moves files
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
# type = "iceberg-scan"                    # tables that no catalog lists, found by their files
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
#
# [[lakes.prod.rules]]                     # upkeep of tables: lakesweep policy show TABLE
# tables = ["prod.shop.*"]
# expire = true
# max_snapshot_age = "7d"
#
# [lakes.prod.upkeep]                      # what holds for all other tables, and floors
# min_age = "1d"
#
# [schedules.nightly]                      # lakesweep serve runs it
# job = "sweep"
# lake = "prod"
# cron = "0 2 * * *"
#
# [server]                                 # lakesweep serve
# host = "127.0.0.1"                       # another address needs a token, or [server.oidc]
# port = 8080
# workers = 2                              # jobs at once
# certificate = "cert.pem"                 # TLS
# key = "key.pem"
# trusted_proxies = []                     # whose X-Forwarded-For is believed
# log = "lines"                            # json: one object for each request
#
# [[webhooks]]                             # told by lakesweep serve what happens
# url = "https://chat.example.com/hooks/1"
# secret = "${LAKESWEEP_WEBHOOK_SECRET}"   # signs each request
# events = ["run.failed", "approval.needed", "limit.reached", "root.unreadable", "files.missing"]
"""


@dataclass(frozen=True, slots=True)
class WriteConfigRequest:
    """Write the template to a file; `force` replaces an existing one."""

    path: Path
    force: bool = False


class WrittenConfig(msgspec.Struct, frozen=True):
    """The file that was written."""

    written: str


def write_config(request: WriteConfigRequest) -> WrittenConfig:
    """Write a commented configuration. UsageError if the file exists or cannot be written."""
    try:
        with request.path.open("w" if request.force else "x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError:
        raise UsageError(f"{request.path} exists", hint="--force replaces it") from None
    except OSError as error:
        raise UsageError(f"{request.path} cannot be written: {error.strerror}") from error
    return WrittenConfig(str(request.path))
