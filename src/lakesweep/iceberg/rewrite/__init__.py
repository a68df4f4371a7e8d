"""Write manifests, manifest lists and snapshots: the same files in other manifests, or fewer."""
