"""The HTTP face of the daemon: the contract is the generated ``/openapi.json``."""
