"""Memory plugins: how a thread is recalled. `base` is the contract, `registry` says which one a workspace uses."""
