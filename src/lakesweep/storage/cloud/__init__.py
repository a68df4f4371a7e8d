"""Google Cloud Storage and memory, through obstore."""
