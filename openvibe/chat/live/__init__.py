"""Live updates: what changes is read once per process (`hub`), made into frames by the door a stream came in by, and
sent to whoever may see it (`viewers`). `stream.event_stream` is what doors serve."""
