"""How many examples hypothesis makes up: few in every run, many in `make nightly`."""

from hypothesis import settings


def register_profiles() -> None:
    """`daily` holds unless pytest is told `--hypothesis-profile=nightly`."""
    settings.register_profile("daily", max_examples=20, deadline=None)
    settings.register_profile("nightly", max_examples=100, deadline=None)
    settings.load_profile("daily")


def examples(nightly: int, daily: int = 0) -> int:
    """`nightly` with `--hypothesis-profile=nightly`; else `daily`, or, if that is not given, a tenth: ten at least."""
    if settings.get_current_profile_name() == "nightly":
        return nightly
    return daily or max(10, nightly // 10)
