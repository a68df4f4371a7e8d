"""Read and write manifest lists, manifests and index manifests."""
