"""What all models at endpoints have in common: addresses, time, errors, streams."""
