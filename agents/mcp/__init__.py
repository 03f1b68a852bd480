"""The Model Context Protocol, both ways: `/mcp` for other programs' models, and other servers' tools for our agents."""
