"""`openvibe run` asked wrongly says what to mend, and starts nothing."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from openvibe_client.cli import main
from tests.client.test_connections import ME, Serve, serve

__all__ = ["serve"]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No settings but a home of the test's own; signals are as before afterwards."""
    for name in ("OPENVIBE_URL", "OPENVIBE_TOKEN", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "Say which command answers"),
        (["--", "no-such-command"], "There is no command no-such-command here."),
        (["--", "cat"], "Say where OpenVibe is"),
        (["--url", "http://127.0.0.1:1", "--", "cat"], "Say who the agent is"),
        (["--url", "http://127.0.0.1:1", "--token-file", "/nowhere", "--", "cat"], "/nowhere cannot be read"),
        (["--at-once", "0", "--", "cat"], "numbers above 0"),
        (["--directory", "/nowhere", "--", "cat"], "/nowhere is no folder"),
    ],
)
def test_what_is_missing_is_named(arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--as", "reed", *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_the_token_has_to_be_the_agents(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENVIBE_TOKEN", "ovk_x")
    script = serve()
    assert main(["run", "--as", "vibe", "--url", script.url, "--", "cat"]) == 2
    sentence = "This token is @reed's, not @vibe's. Say --as reed, or give it a token of @vibe's own."
    assert capsys.readouterr().err == f"{sentence}\n"
    script.answers["GET me"] = [{**ME, "participant": {**ME["participant"], "handle": "ana", "kind": "member"}}]
    for handle in ("ana", "reed"):
        assert main(["run", "--as", handle, "--url", script.url, "--", "cat"]) == 2
        sentence = (
            "This token is @ana's, who is no agent. Give it an agent's own: Workspace settings, Tokens for the API."
        )
        assert capsys.readouterr().err == f"{sentence}\n"
    script.answers["GET me"] = [(401, {"code": "bad_token", "detail": "This token is not valid."})]
    assert main(["run", "--as", "reed", "--url", script.url, "--", "cat"]) == 1
    assert "This token is not valid." in capsys.readouterr().err


def test_an_agent_whose_answers_a_model_writes_is_told_at_the_start(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENVIBE_TOKEN", "ovk_x")
    refusal = (401, {"code": "bad_token", "detail": "This token is not valid."})
    script = serve(GET_reed=[{"answers_itself": False}], GET_events=[refusal])
    assert main(["run", "--as", "reed", "--url", script.url, "--", "cat"]) == 2
    assert "Choose “A program elsewhere, through the API” in its settings" in capsys.readouterr().err


@pytest.mark.parametrize("handle", ["reed", "@reed", "Reed", " @REED "])
def test_the_agent_may_be_written_as_people_write_it(
    handle: str, serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENVIBE_TOKEN", "ovk_x")
    script = serve(GET_events=[b"id: 6\n: open\n\nevent: gone\ndata: {}\n\n"])
    assert main(["run", "--as", handle, "--url", script.url, "--plain", "--", "cat"]) == 1
    assert "@reed listens, and answers with cat." in capsys.readouterr().err


def test_it_does_not_say_that_it_listens_before_its_stream_is_open(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENVIBE_TOKEN", "ovk_x")
    script = serve(GET_events=[(403, {"code": "missing_scope", "detail": "This token may not read."})])
    assert main(["run", "--as", "reed", "--url", script.url, "--plain", "--", "cat"]) == 1
    said = capsys.readouterr().err
    assert "This token may not read." in said
    assert "listens" not in said
