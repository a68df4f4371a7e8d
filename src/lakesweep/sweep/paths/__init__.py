"""What paths reveal: their folder, format and kind."""
