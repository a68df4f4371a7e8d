"""What paths tell: the folder they lie in, their format, their kind."""
