"""Prompts that were sent: what they were made of, where an answer comes from, and how well they were cached."""
