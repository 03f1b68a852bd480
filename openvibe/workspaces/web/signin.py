"""Signing in: allauth's form, with the keyboard in its first field."""

from typing import Any

from allauth.account.forms import LoginForm as AllauthLoginForm


class LoginForm(AllauthLoginForm):  # type: ignore[misc]  # allauth has no types
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["login"].widget.attrs["autofocus"] = True
