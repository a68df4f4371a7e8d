"""Read range and metarange files (SSTables) with compiled kernels."""
