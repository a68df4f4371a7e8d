"""Keep the store's own database small: find rows nothing references, and delete them."""
