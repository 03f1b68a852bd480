"""How many files a process may have open: each connection is one."""

import resource

MAX_OPEN_REQUESTS = 4096  # of a web process: each open page is a request that lasts
OWN_FILES = 128  # of a web process, besides connections: its database sessions, logs, what it reads for answers


def open_file_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_file_limit(count: int) -> int:
    """Lets this process, and those it starts, have so many files open, or as many as the system allows; answers how
    many that are. Shells and containers often begin with 1,024, and allow more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(soft, min(hard, count))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit
