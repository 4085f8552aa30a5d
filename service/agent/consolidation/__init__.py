"""Consolidation: in idle time the language model writes notes, each sentence citing its anchors."""
