"""The OpenAI-compatible door: chat clients ask an agent as if it were a model, and the agent answers as itself, with
its own context, in a thread that people can read."""
