"""OPENVIBE_EMAIL_URL, read into Django's own settings."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from openvibe.settings.environment import CONSOLE_BACKEND, mail_settings


def test_without_a_server_mail_goes_to_the_log() -> None:
    assert mail_settings("") == {"EMAIL_BACKEND": CONSOLE_BACKEND}


def test_a_server_with_a_password_is_spoken_to_encrypted() -> None:
    read = mail_settings("smtp://ana:s%40fe@mail.example.org")
    assert (read["EMAIL_HOST_PASSWORD"], read["EMAIL_PORT"], read["EMAIL_USE_TLS"]) == ("s@fe", 587, True)


def test_what_is_no_address_is_said() -> None:
    with pytest.raises(ImproperlyConfigured, match="smtp://"):
        mail_settings("mail.example.org")


@pytest.mark.parametrize("url", ["smtp://ana:s[fe@mail.example.org", "smtp://ana:s/fe@mail.example.org"])
def test_a_password_with_signs_of_an_address_is_said(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"OPENVIBE_EMAIL_URL: .*%5B"):
        mail_settings(url)
