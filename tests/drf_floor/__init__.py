"""The floor of `bench http`, a Django of its own: it imports nothing of the benches."""
