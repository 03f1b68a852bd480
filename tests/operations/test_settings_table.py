"""docs/settings.md says what the code reads, no more and no less; what cannot be right is named."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from openvibe.settings.environment import (
    ROOT,
    Environment,
    create_private_folder,
    database_settings,
    public_url,
    read_environment,
    read_or_create_secret_key,
    unknown_variables,
)

NUMBERS = [
    field.alias or f"OPENVIBE_{name.upper()}"
    for name, field in Environment.model_fields.items()
    if field.annotation in (int, float)
]


def rows() -> list[str]:
    """The table's rows, made from the fields."""
    made = []
    for name, field in Environment.model_fields.items():
        variable = field.alias or f"OPENVIBE_{name.upper()}"
        default = str(field.default).replace(str(ROOT) + "/", "")
        made.append(f"| `{variable}` | {f'`{default}`' if default else 'empty'} | {field.description} |")
    return made


def test_the_table_lists_every_setting() -> None:
    page = Path(ROOT, "docs", "settings.md").read_text(encoding="utf-8")
    written = [line for line in page.splitlines() if line.startswith("| `")]
    assert written == rows(), "docs/settings.md should hold:\n" + "\n".join(rows())


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PORT", "70000"),
        ("PORT", "http"),
        ("OPENVIBE_DEBUG", "perhaps"),
        ("OPENVIBE_LOG_LEVEL", "loud"),
        ("OPENVIBE_ALLOWED_HOSTS", "localhost,https://chat.example.org"),
        ("OPENVIBE_ALLOWED_HOSTS", "chat.example.org:8000"),
        ("OPENVIBE_CSRF_TRUSTED_ORIGINS", "chat.example.org"),
        ("OPENVIBE_CSRF_TRUSTED_ORIGINS", "https://chat.example.org/"),
        ("OPENVIBE_CSRF_TRUSTED_ORIGINS", "https://["),
        ("OPENVIBE_CSRF_TRUSTED_ORIGINS", "https://chat.example.org:port"),
        ("OPENVIBE_CSRF_TRUSTED_ORIGINS", "https://*"),
        ("OPENVIBE_ALLOWED_HOSTS", ","),
        ("OPENVIBE_PUBLIC_URL", "chat.example.org"),
        ("OPENVIBE_PUBLIC_URL", "https://["),
        ("OPENVIBE_PUBLIC_URL", "https://chat example.org"),
        ("OPENVIBE_PUBLIC_URL", "https://chat.example.org:99999"),
        ("OPENVIBE_PUBLIC_URL", "https://chat.example.org/team"),
        ("OPENVIBE_PUBLIC_URL", "https://chat.example.org?team"),
        ("OPENVIBE_OIDC_URL", "id.example.org"),
        ("OPENVIBE_OIDC_URL", "https://["),
        ("OPENVIBE_OIDC_URL", "https://id.example.org/realms/my team"),
        ("CELERY_BROKER_URL", "localhost:6379"),
        ("CELERY_BROKER_URL", "amqp://["),
        ("CELERY_BROKER_URL", "amqp://ana:se/cret@localhost"),
        ("CELERY_BROKER_URL", "amqp://local host"),
        ("CELERY_BROKER_URL", "redis://localhost:6379/first"),
        ("CELERY_BROKER_URL", "redis://localhost:6379/0;redis://localhost:port/0"),
        ("OPENVIBE_FROM_EMAIL", "openvibe@example.org\nBcc: eve@example.org"),
        ("OPENVIBE_FROM_EMAIL", "ana@example.org, ben@example.org"),
        ("OPENVIBE_FROM_EMAIL", "OpenVibe openvibe@example.org"),
        ("OPENVIBE_FROM_EMAIL", "OpenVibe"),
        ("OPENVIBE_HSTS_SECONDS", "-1"),
        ("OPENVIBE_HSTS_PRELOAD", "1"),
        *((variable, "9" * 20) for variable in NUMBERS),
        *((variable, "inf") for variable in NUMBERS),
        *((variable, "nan") for variable in NUMBERS),
    ],
)
def test_what_cannot_be_right_is_named(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ImproperlyConfigured, match=f"wrong. {variable}: "):
        read_environment()


def test_what_may_be_right_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "PORT": "",
        "OPENVIBE_LOG_LEVEL": "debug",
        "OPENVIBE_ALLOWED_HOSTS": ".example.org, 10.0.0.1, [::1], *",
        "OPENVIBE_CSRF_TRUSTED_ORIGINS": "https://chat.example.org:8443, https://*.example.org",
        "OPENVIBE_PUBLIC_URL": "https://[::1]:8443/",
        "OPENVIBE_OIDC_URL": "https://id.example.org/realms/team",
        "OPENVIBE_FROM_EMAIL": '"Vibe, of us" <openvibe@localhost>',
        "CELERY_BROKER_URL": "redis://:secret@one:6379/1;redis://two",
    }
    for variable, value in values.items():
        monkeypatch.setenv(variable, value)
    env = read_environment()
    assert (env.port, env.log_level) == (8000, "DEBUG")
    assert public_url(env) == "https://[::1]:8443"  # paths are joined to it


def test_of_other_hosts_nothing_is_told_to_browsers_until_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def hsts() -> tuple[int, bool, bool]:
        env = read_environment()
        return env.hsts_seconds, env.hsts_include_subdomains, env.hsts_preload

    assert hsts() == (31_536_000, False, False)
    for name, value in (("SECONDS", "0"), ("INCLUDE_SUBDOMAINS", "1"), ("PRELOAD", "1")):
        monkeypatch.setenv(f"OPENVIBE_HSTS_{name}", value)
    assert hsts() == (0, True, True)


@pytest.mark.parametrize(
    "url",
    [
        "postgres://ana@localhost:99999/openvibe",
        "postgres://ana:se[cret@localhost/openvibe",
        "postgres://ana:se/cret@localhost/openvibe",
        "postgres://[",
        "http://[",
        "mysql://localhost/openvibe",
    ],
)
def test_a_database_address_that_cannot_be_right_is_named(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL"):
        database_settings(url, ROOT)


def test_the_folder_of_everything_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "var"
    create_private_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    create_private_folder(folder)  # somebody may share one on purpose: only `serve` tightens what it served from
    assert folder.stat().st_mode & 0o777 == 0o755
    create_private_folder(Path("/proc/nothing/here"))


def test_a_folder_whose_name_is_too_long_is_said(tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"cannot be written \(File name too long\).*OPENVIBE_VAR"):
        read_or_create_secret_key(tmp_path / ("x" * 300) / "secret_key")


def test_a_mistyped_variable_is_told_with_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistyped variable is refused in production, unless no setting has a name like it."""
    names = ["OPENVIBE_ALOWED_HOSTS", "OPENVIBE_PORT", "OPENVIBE_QUUX", "OPENVIBE_TOKEN", "OPENVIBE_VAR", "PATH"]
    assert unknown_variables(names) == {
        "OPENVIBE_ALOWED_HOSTS": "OPENVIBE_ALLOWED_HOSTS",
        "OPENVIBE_PORT": "PORT",
        "OPENVIBE_QUUX": "",
    }
    monkeypatch.setenv("OPENVIBE_QUUX", "1")
    monkeypatch.setenv("OPENVIBE_PRODUCTION", "1")
    read_environment()
    monkeypatch.setenv("OPENVIBE_ALOWED_HOSTS", "chat.example.org")
    with pytest.raises(ImproperlyConfigured, match=r"OPENVIBE_ALOWED_HOSTS.*Did you mean OPENVIBE_ALLOWED_HOSTS"):
        read_environment()
    monkeypatch.delenv("OPENVIBE_PRODUCTION")
    read_environment()
