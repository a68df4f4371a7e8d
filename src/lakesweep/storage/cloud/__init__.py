"""Google Cloud Storage, Azure and memory, through obstore."""
