"""Google Cloud, Azure and memory, through obstore."""
