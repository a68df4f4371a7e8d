"""The use cases: a typed request in, a typed result out, no printing."""
