"""Answers that claim to have done what no tool has done."""
