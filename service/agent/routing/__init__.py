"""The router's model without LLM: features of a message and its candidates, and what they say."""
