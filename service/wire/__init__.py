"""What goes over HTTP, declared once: the daemon answers with it, and the commands read it."""
