"""What people say of a time to come, in English and Chinese; what is left open is refused."""
