"""What an agent thinks and does while it answers, as the page shows it: live, folded, and kept open by who reads it."""

from pathlib import Path

from playwright.sync_api import expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.test_conversation import replies, say, start_thread
from tests.journeys.test_late_answers import WIDE, thread_of

THINK = """
from agents.models import Run, RunStep
from agents.runs.thoughts import emit_step
run = Run.objects.filter(thread={thread}).select_related("thread").latest("pk")
facts = {{"attempt": run.attempt, "kind": "thought", "state": "{state}", "text": "Lemons drink little.", "tokens": 40}}
RunStep.objects.update_or_create(run=run, key="thought:1:1", defaults=dict(facts, milliseconds=12_000))
emit_step(run)
"""


THINKS_ON = """
from agents.models import RunStep
step = RunStep.objects.filter(run__thread={thread}, kind="thought").get()
step.text += "\\nSo do olives." * 40
step.save()
"""


def test_thoughts_and_steps_are_followed_and_read(people: People, installation: Installation, tmp_path: Path) -> None:
    ana = people.ana(viewport=WIDE)
    start_thread(ana, "Thought over", "Hello.")
    installation.model.calls_first("search_thread", query="hello")
    go_on = installation.model.holds_back_after_first_words("Once upon a time.")
    say(ana, "@vibe tell me a story")
    reply = replies(ana)
    expect(reply.locator(".prose")).to_contain_text("Once")
    expect(reply.locator(".run-now")).to_contain_text("search_thread")

    installation.shell(THINK.format(thread=thread_of(ana), state="running"))
    thought = reply.locator(".run-thought")
    expect(thought.locator("summary")).to_contain_text("Thinking…")
    thought.locator("summary").click()
    expect(thought).to_contain_text("Lemons drink little.")
    words = thought.locator(".run-thought-text")
    words.focus()
    installation.shell(THINKS_ON.format(thread=thread_of(ana)))  # no event tells of it
    expect(words).to_contain_text("So do olives.")
    expect(words).to_be_focused()
    words.evaluate("it => { it.scrollTop = 30; }")
    installation.shell(THINKS_ON.format(thread=thread_of(ana)))
    expect(words).to_contain_text("So do olives.\n" * 80)
    assert words.evaluate("it => it.scrollTop") == 30
    ana.screenshot(path=tmp_path / "writing.png")

    installation.shell(THINK.format(thread=thread_of(ana), state="done"))
    expect(thought.locator("summary")).to_have_text("Thought for 12 s, 40 tokens")
    expect(thought).to_have_attribute("open", "")
    go_on.set()
    expect(reply).to_have_attribute("data-state", "complete")
    expect(thought).to_contain_text("Lemons drink little.")
    expect(reply.locator(".run-now")).to_have_count(0)
    steps = reply.locator(".run-steps")
    expect(steps.locator("summary")).to_contain_text("1 step")
    steps.locator("summary").click()
    expect(steps).to_contain_text("search_thread")
    expect(steps).to_contain_text("Arguments")
    for theme in ("light", "dark"):
        ana.emulate_media(color_scheme=theme)
        ana.screenshot(path=tmp_path / f"{theme}.png")
