from __future__ import annotations

import time
from base64 import b64encode
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.engines.text.masking import MASK, mask_secrets

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAcanary0123456789\nabcdefgh\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlLWNhbmFyeQ"
HEX = "3f786850e387550fdab836ed7e6dc881de23001b"
OF_LIBRARY = {
    "Azure storage": f"AccountKey={HEX}{HEX}canary==",
    "Discord bot": "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
    "GitLab deploy": "gldt-canary0123456789abcd",
    "GitLab feed": "glft-canary0123456789abcd",
    "GitLab application": "gloas-" + (HEX + HEX)[:64],
    "GitLab runner": "glrt-canary0123456789abcd",
    "GitLab runner registration": "GR1348941canary0123456789abcd",
    "GitLab job": "glcbt-64_canary0123456789abcd",
    "GitLab incoming mail": "glimt-" + HEX[:25],
    "GitLab trigger": "glptt-" + HEX,
    "GitLab cluster agent": "glagent-" + (HEX + HEX)[:50],
    "Mailchimp": HEX[:32] + "-us12",
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + HEX + HEX,
    "Test PyPI": "pypi-AgENdGVzdC5weXBpLm9yZw" + HEX + HEX,
    "SendGrid": f"SG.{HEX[:22]}.{(HEX + HEX)[:43]}",
    "Slack webhook": "https://hooks.slack.com/services/T0CANARY0/B0CANARY0/canarycanarycanary",
    "Square": "sq0csp-" + (HEX + HEX)[:43],
    "Twilio account": "AC" + HEX[:32],
    "Twilio key": "SK" + HEX[:32],
}
SECRETS = [
    *OF_LIBRARY.values(),
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
    "AQ.Ab8canary0123456789abcdefghij0123456789",
    "hf_canaryabcdefghijklmnopqrst",
    "glpat-canary0123456789ab",
    f"1234567890:AA{HEX[:33]}",
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


ROOT = Path(__file__).parents[3]
ORDINARY = [
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "tests" / "bench" / "texts").glob("*.txt")),
    *sorted((ROOT / "static" / "js").glob("*.js")),
    ROOT / "requirements.txt",  # two thousand hashes
    ROOT / "tests" / "data" / "meeting.jsonl",
]


def test_documents_code_and_hashes_stay() -> None:
    for path in ORDINARY:
        text = path.read_text().replace("smtp://user:password@host", "")  # an example of what is masked
        assert mask_secrets(text) == text, path.name


@given(st.uuids(), st.binary(min_size=20, max_size=32), st.integers(10**8, 10**11))
def test_ids_hashes_and_numbers_stay(uuid: UUID, digest: bytes, number: int) -> None:
    for text in (
        str(uuid),
        uuid.hex,
        digest.hex(),
        f"sha256:{digest.hex()}",
        f"sha256-{b64encode(digest).decode()}",
        f"{number}:{uuid}",
        f"At {number}: commit {digest.hex()} in v1.2.3-us, model gpt-4o-mini.",
    ):
        assert mask_secrets(text) == text


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
        "AccountKey=",
        "M",
        "N-",
        "glagent-",
        "0",
        "1:",
        "12345678:",
        "AC",
        "xoxb-1-",
        "https://hooks.slack.com/services/T",
        "sq0csp-",
        "SG.a.",
    ],
)
def test_masking_takes_linear_time(piece: str) -> None:
    text = piece * (500_000 // len(piece))
    start_time = time.process_time()
    mask_secrets(text)
    assert time.process_time() - start_time < 5
