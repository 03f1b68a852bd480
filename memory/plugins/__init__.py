"""Memory plugins: how a thread is recalled. `base` is the protocol, `registry` says which plugin a workspace uses,
`lcm` and `simple` are the built-in ones."""
