"""Rondo: a personal-assistant daemon that remembers every matter, word for word.

The house, from the ground up (imports run downwards only):

- ``service.domain``: the shared words as pure types; no I/O.
- ``service.config``: the effective settings.
- ``service.models``: fetching and verifying model weights.
- ``service.memory``: journal, short-term store, long-term memory.
- ``service.tools``: what the assistant can do.
- ``service.agent``: models, the run loop, the router, the `Agent` facade.
- ``service.server``: the HTTP face.
- ``service.cli``, ``service.bench``: commands and benchmarks.
"""

__version__ = "0.1.0"
