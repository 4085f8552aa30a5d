"""The training of the router's model, and conversations made into streams to train it on."""
