"""What the proxy says of a request, and what is said of a proxy that says it wrongly."""

import pytest
from django.core.checks import run_checks
from django.test import Client
from pytest_django.fixtures import Settings


@pytest.fixture
def behind_a_proxy(settings: Settings) -> None:
    """A server as in production, where a proxy with HTTPS stands in front."""
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.ALLOWED_HOSTS = ["vibe.example"]


@pytest.mark.parametrize(
    ("proto", "status"), [(None, 400), ("https", 200), ("http", 301), ("ftp", 301), ("https, http", 200)]
)
def test_without_the_proxys_word_it_says_which_instead_of_redirecting_for_ever(
    behind_a_proxy: None, db: None, proto: str | None, status: int
) -> None:
    headers = {"host": "vibe.example"} | ({"x-forwarded-proto": proto} if proto else {})
    answer = Client(headers=headers).get("/accounts/login/")
    assert answer.status_code == status
    assert (b"X-Forwarded-Proto: https" in answer.content) is (status == 400)
    assert answer.headers.get("Location", "") == ("https://vibe.example/accounts/login/" if status == 301 else "")
    assert Client(headers=headers).get("/healthz").status_code == 200, "probes come past the proxy"


@pytest.mark.parametrize(
    ("host", "browser", "status"),
    [("vibe.example", True, 400), ("vibe.example", False, 301), ("localhost:8470", True, 301), ("[::1]", True, 301)],
)
def test_a_proxy_that_calls_https_http_is_named_instead_of_redirecting_for_ever(
    behind_a_proxy: None, settings: Settings, db: None, host: str, browser: bool, status: int
) -> None:
    settings.ALLOWED_HOSTS = ["vibe.example", "localhost", "[::1]"]
    fetch = {"sec-fetch-site": "none"} if browser else {}  # browsers send it over HTTPS, and to their own machine
    answer = Client(headers={"host": host, "x-forwarded-proto": "http", **fetch}).get("/accounts/login/")
    assert answer.status_code == status
    assert (b"pass on the header X-Forwarded-Proto" in answer.content) is (status == 400)


@pytest.mark.parametrize("proto", [{}, {"x-forwarded-proto": "http"}])
def test_the_page_that_says_so_has_its_style(behind_a_proxy: None, proto: dict[str, str]) -> None:
    assert Client(headers={"host": "vibe.example", **proto}).get("/static/css/base.css").status_code == 200


def test_the_log_says_once_what_the_proxy_has_to_send(behind_a_proxy: None, caplog: pytest.LogCaptureFixture) -> None:
    browser = Client(headers={"host": "vibe.example"})
    for _ in range(3):
        browser.get("/accounts/login/")
    assert caplog.text.count("forwarded_proto_missing") == 1
    assert "X-Forwarded-Proto: https" in caplog.text


@pytest.mark.parametrize(
    ("count", "addresses", "event"),
    [
        (0, "192.0.2.1", "trusted_proxies_unset"),
        (1, "", "forwarded_for_short"),
        (2, "192.0.2.1", "forwarded_for_short"),
        (0, "", ""),
        (1, "192.0.2.1", ""),
        (1, "192.0.2.1, 192.0.2.2", ""),
    ],
)
def test_the_log_says_once_when_all_people_count_as_one_address(
    behind_a_proxy: None,
    settings: Settings,
    db: None,
    caplog: pytest.LogCaptureFixture,
    count: int,
    addresses: str,
    event: str,
) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = count
    browser = Client(headers={"host": "vibe.example", "x-forwarded-proto": "https"})
    for _ in range(2):
        browser.get("/accounts/login/", headers={"x-forwarded-for": addresses} if addresses else {})
    assert caplog.text.count("OPENVIBE_TRUSTED_PROXIES") == bool(event)
    assert event in caplog.text


@pytest.mark.parametrize("count", [0, 1])
def test_a_check_before_the_start_says_so(behind_a_proxy: None, settings: Settings, count: int) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = count
    warnings = run_checks(tags=["addresses"], include_deployment_checks=True)
    assert ["OPENVIBE_TRUSTED_PROXIES" in str(warning) for warning in warnings] == [True] * (count == 0)
