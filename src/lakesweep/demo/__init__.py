"""An embedded lake of Iceberg tables with garbage of every kind, to try commands on."""
