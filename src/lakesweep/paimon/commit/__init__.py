"""Commit new snapshots with rewritten manifests."""
