"""What tables hold, lack and could free, by their metadata alone."""
