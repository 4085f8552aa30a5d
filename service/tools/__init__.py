"""What the assistant can do: the tool protocol, the registry, approval, and the built-ins."""
