"""Expire snapshots, changelogs and tags, with the files that only they used."""
