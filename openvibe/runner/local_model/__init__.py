"""A small language model on this machine, without a key: its weights and llama.cpp's server come as packages.

`make local-model` runs it. Nothing of OpenVibe imports this, and this imports nothing of OpenVibe."""
