"""Files of a person's, in the folders that they granted."""
