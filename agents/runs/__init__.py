"""One invocation of an agent, from the row that asks for it to the words that answer."""
