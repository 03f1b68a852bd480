"""What agents elsewhere ask leave for: asked once, answered by rules or people, shown."""
