from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.base.masking import MASK, mask_secrets

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAcanary0123456789\nabcdefgh\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlLWNhbmFyeQ"
SECRETS = [
    "sk-canary0123456789abcdefghij",
    "sk-proj-canary_0123456789-abcdefghij",
    "sk-ant-api03-canary0123456789-abcdef_ghij",
    "ovk_canary0123456789",
    "AKIACANARY0123456789"[:20],
    "ghp_canary0123456789abcdefghijABCDEFGHIJ",
    "github_pat_11CANARY0_abcdefghijklmnop",
    "xoxb-1234567890-canarycanary",
    "sk_live_canary0123456789",
    "AIzacanary0123456789abcdefghij0123456789",
    "hf_canaryabcdefghijklmnopqrst",
    "glpat-canary0123456789ab",
    JWT,
    PEM,
    PEM.replace("RSA ", ""),
    PEM.replace("RSA ", "OPENSSH "),
]
IN_CONTEXT = [
    ("password=canary!", "password=" + MASK),
    ("PASSWORD = 'canary'", "PASSWORD = '" + MASK + "'"),
    ('{"password": "canary"}', '{"password": "' + MASK + '"}'),
    ("api_key: canary123", "api_key: " + MASK),
    ("Authorization: Bearer canaryabcdef", "Authorization: Bearer " + MASK),
    ("authorization: Basic Y2FuYXJ5OmNhbmFyeQ==", "authorization: Basic " + MASK),
    ("-H 'Authorization: canary0123456'", "-H 'Authorization: " + MASK + "'"),
    ("postgres://ana:canary@db.example/x", "postgres://ana:" + MASK + "@db.example/x"),
    ("https://x.example/?access_token=canary&a=1", "https://x.example/?access_token=" + MASK + "&a=1"),
    (PEM[:70] + "\nafter that, talk", MASK + "\nafter that, talk"),
]
HARMLESS = [
    "The password is something we should talk about.",
    "Authorization: required for admins, bearer of good news.",
    "Please ask for a token at the desk: 12 people wait.",
    "See https://example.org/sk-learn and mask-related notes, task-force-alpha-and-beta-teams.",
    "Our secret: we water them at night.",
    "The SHA is 3f786850e387550fdab836ed7e6dc881de23001b.",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_removed_wherever_they_stand(secret: str) -> None:
    for around in ("{}", "key: {}.", "<{}>", '"{}"', "a\n{}\nb", "`{}`", "({}),", "x={}"):
        assert mask_secrets(around.format(secret)) == around.format(MASK)


@pytest.mark.parametrize(("text", "masked"), IN_CONTEXT)
def test_what_stands_after_a_telling_word_is_removed(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_talk_stays(text: str) -> None:
    assert mask_secrets(text) == text


def test_two_keys_and_what_stands_between_them() -> None:
    assert mask_secrets(f"{PEM}\nbetween\n{PEM}\nafter") == f"{MASK}\nbetween\n{MASK}\nafter"


@given(st.text(max_size=300), st.sampled_from(SECRETS), st.text(max_size=300))
def test_no_surroundings_save_a_secret(before: str, secret: str, after: str) -> None:
    masked = mask_secrets(f"{before} {secret} {after}")
    assert secret not in masked


@given(
    st.lists(
        st.sampled_from(
            [*SECRETS, "password=", "Bearer ", "Authorization: ", "x", " ", "\n", "://a:", "@", "'", ":", "9", "-"]
        )
    )
)
def test_masking_twice_changes_nothing(pieces: list[str]) -> None:
    once = mask_secrets("".join(pieces))
    assert mask_secrets(once) == once


@pytest.mark.parametrize(
    "piece",
    [
        "sk-",
        "eyJ",
        "eyJaaaaaaaa.",
        "eyJ-",
        "password=",
        "password:",
        "Authorization: Bearer ",
        "://",
        "://a:",
        "a:b@",
        "xoxb-",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----nnnnnnnn",
        "-----END PRIVATE KEY-----",
        "a",
        " ",
        "gh",
        "-",
        "-----BEGIN A",
        "bearer ",
        "n" * 20 + "\\",
    ],
)
def test_masking_takes_linear_time(piece: str) -> None:
    text = piece * (500_000 // len(piece))
    begun = time.process_time()
    mask_secrets(text)
    assert time.process_time() - begun < 5
