"""Rondo as a library: what `service` exports."""
