"""The plugin of docs/memory-plugin.md: the page holds it, it keeps every promise, and prompts are made with it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command

from agents.models import Agent
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.prompts.assembler.sections.history import MENTION_TAIL
from memory.plugins.testing import RULES, ConformanceRule, check_rule, plugins_under_test
from openvibe.chat.models import Thread
from openvibe.chat.services import post_message
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
from tests.memory.plugins.third_party import installed_package

DOCS = Path(__file__).parents[3] / "docs"
SOURCE = (DOCS / "memory_plugin.py").read_text()
NAME = "acme/exchanges"


@pytest.fixture
def exchanges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The file as a package that pip installed, named to the conformance suite as its author names it."""
    monkeypatch.setenv("OPENVIBE_MEMORY_PLUGIN", NAME)
    with installed_package(tmp_path, name=NAME, source=SOURCE, provider="Exchanges"):
        yield NAME


def test_the_page_holds_the_file_and_it_has_some_fifty_lines() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "memory-plugin.md").read_text(), re.DOTALL)
    assert blocks[0] == SOURCE
    assert len(SOURCE.splitlines()) <= 60


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.capability is None], ids=lambda rule: rule.name)
def test_it_keeps_every_promise(rule: ConformanceRule, exchanges: str, db: None) -> None:
    check_rule(rule, plugins_under_test()[exchanges])


def shown_beds(prompt: Prompt) -> list[str]:
    return re.findall(r"Bed \d+", str(prompt.messages))


def test_a_prompt_is_made_with_it(exchanges: str, vibe: Agent, ana: Member, thread: Thread) -> None:
    for number in range(1, 31):
        post_message(thread=thread, by=member_access(ana), body=f"Bed {number} was dug over.")
    message = post_message(thread=thread, by=member_access(ana), body="@vibe when do I prune?")
    call_command("plugin", "enable", exchanges)
    whole = shown_beds(assemble(agent=vibe, thread=thread, task="mention", request=message))
    call_command("plugin", "config", exchanges, "exchanges=1")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=message)
    few = shown_beds(prompt)

    assert whole[0] == "Bed 1", "everything fits"
    assert few[-MENTION_TAIL] == f"Bed {31 - MENTION_TAIL}", "the tail; what else bears on the request stands before it"
    assert any(item.section == "recall" for item in prompt.included)
