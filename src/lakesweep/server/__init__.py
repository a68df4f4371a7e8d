"""The service as one ASGI application: its HTTP API, who may use it, and its metrics."""
