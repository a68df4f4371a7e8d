"""S3 and compatible servers, through our own exact client."""
