"""A workspace as one file: JSONL tables and attached files in a zip, written by `export`, read by `restore`.

`tables` says which tables there are and what of them is left out; nothing else here names a model."""
