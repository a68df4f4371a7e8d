"""The configuration as typed values: the sections of `lakesweep.toml`."""

from __future__ import annotations

from lakesweep.config.fields import Section
from lakesweep.config.lakes import (
    AcceptSection,
    LakeSection,
    UnattendedSection,
    UpkeepRule,
    UpkeepValues,
)
from lakesweep.config.roots import (
    IcebergCatalogRoot,
    IcebergMetadataRoot,
    IcebergScanRoot,
    LakefsRoot,
    LakesweepRoot,
    PaimonWarehouseRoot,
    PinnedRoot,
    Root,
)
from lakesweep.config.sections import Config, SparkSection, StorageSection, StoreSection
from lakesweep.config.service import OidcSection, ScheduleSection, WebhookSection

__all__ = [
    "AcceptSection",
    "Config",
    "IcebergCatalogRoot",
    "IcebergMetadataRoot",
    "IcebergScanRoot",
    "LakeSection",
    "LakefsRoot",
    "LakesweepRoot",
    "OidcSection",
    "PaimonWarehouseRoot",
    "PinnedRoot",
    "Root",
    "ScheduleSection",
    "Section",
    "SparkSection",
    "StorageSection",
    "StoreSection",
    "UnattendedSection",
    "UpkeepRule",
    "UpkeepValues",
    "WebhookSection",
]
