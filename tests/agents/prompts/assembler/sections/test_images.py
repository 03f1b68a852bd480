"""What prompts hold of images: the pixels for models that see, with their message and within the budget; for all, their
names, sizes and descriptions."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.models import Agent
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.prompts.assembler.render import shared_prefix_tokens
from agents.prompts.assembler.sections.images import MAX_IMAGES, NOTICE
from agents.prompts.snapshots.content import content_messages
from agents.prompts.snapshots.redaction import view_of_prompt
from agents.prompts.snapshots.store import shared_prefix_with, snapshot_content
from openvibe.chat.models import Image, Message, Thread
from openvibe.chat.services import delete_message, describe_image, start_dive
from openvibe.engines.llm.adaptations.request_shapes import without_images
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.tokens import count_prompt_tokens, counter_for
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory
from tests.factories import access, make_thread, say, show

pytestmark = pytest.mark.django_db


def seeing(ana: Member, model: str = "gpt-4o", **fields: Any) -> Endpoint:
    return EndpointFactory.create(
        workspace=ana.workspace, name=model, base_url="https://m.example/v1", model=model, is_default=True, **fields
    )


def prompt_for(agent: Agent, request: Message | str, thread: Thread | None = None, **more: Any) -> Prompt:
    where = thread or request.thread  # type: ignore[union-attr]
    fresh = Agent.objects.select_related("participant", "workspace", "soul", "endpoint").get(pk=agent.pk)
    prompt = assemble(agent=fresh, thread=where, request=request, **{"task": "thread", **more})
    assert count_prompt_tokens(prompt.messages, prompt.tools, prompt.counter) == prompt.tokens <= prompt.ceiling
    return prompt


def sent(prompt: Prompt) -> list[tuple[str, list[str]]]:
    """The last line of words of each message with images, and the images' names."""
    return [
        (message.content.strip().splitlines()[-2], [image.name for image in message.images])
        for message in prompt.messages
        if message.images
    ]


def seen_names(prompt: Prompt) -> set[str]:
    return {image.name for message in prompt.messages for image in message.images}


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "claude-sonnet-4-5", "gemini-2.5-flash", "my-own-model"])
def test_images_are_counted_by_the_rule_of_the_model(ana: Member, vibe: Agent, thread: Thread, model: str) -> None:
    seeing(ana, model)
    show(thread, ana, names=("one.png", "two.png"), size=(900, 700))
    prompt = prompt_for(vibe, show(thread, ana, "@vibe which is older?", names=("three.png",)))
    assert seen_names(prompt) == {"one.png", "two.png", "three.png"}
    pixels = [item.tokens for item in prompt.included if item.key.startswith("pixels:")]
    count = counter_for(model).count_image
    assert sorted(pixels) == sorted([count(900, 700), count(900, 700), count(600, 400)])


def test_each_goes_with_its_message(ana: Member, vibe: Agent, thread: Thread) -> None:
    seeing(ana)
    first = show(thread, ana, "The wall.")
    request = show(thread, ana, "@vibe and this?", names=("door.png",))
    messages = prompt_for(vibe, request).messages
    assert [[image.name for image in message.images] for message in messages[-3:]] == [["wall.png"], [], ["door.png"]]
    wall = first.images.get()
    assert (
        f"1 Ana [{first.created_at:%Y-%m-%d %H:%M}]: The wall.\nimage:{wall.pk} Ana, wall.png" in messages[-3].content
    )
    assert "@vibe and this?" in messages[-1].content
    assert messages[-2].content.count(NOTICE) == 1
    assert messages[-3].images[0].data == bytes(wall.content)


def test_the_newest_stay_where_room_is_short(ana: Member, vibe: Agent, thread: Thread) -> None:
    seeing(ana)
    for number in range(8):
        show(thread, ana, f"Look {number}", names=(f"{number}.png",), size=(1_400, 800))
    prompt = prompt_for(vibe, say(thread, ana, "@vibe which?"), budget=12_000)
    shown = seen_names(prompt)
    assert shown == {f"{number}.png" for number in range(8 - len(shown), 8)}
    assert 0 < len(shown) < 8
    left_out = [item for item in prompt.dropped if item.key.startswith("pixels:")]
    assert {(item.reason, item.section) for item in left_out} == {("over budget", "images")}
    assert len(left_out) == 8 - len(shown)
    words = "".join(message.content for message in prompt.messages)
    assert (words.count("you see it"), words.count("you do not see it")) == (len(shown), 8 - len(shown))
    assert sum(item.tokens for item in prompt.included if item.key.startswith("pixels:")) <= 12_000 // 3


def test_of_very_many_the_newest_are_named(ana: Member, vibe: Agent, thread: Thread) -> None:
    for number in range(5):
        show(thread, ana, f"Look {number}", names=[f"{number}{letter}.png" for letter in "abcde"])
    prompt = prompt_for(vibe, say(thread, ana, "@vibe which?"))
    keys = [item.key for item in prompt.included] + [item.key for item in prompt.dropped]
    named = [key for key in keys if key.startswith("image:")]
    assert len(named) == MAX_IMAGES
    assert sum(item.tokens for item in prompt.included if item.section == "images") <= 700


@pytest.mark.parametrize(
    ("model", "choice", "is_shown"),
    [
        ("gpt-4o", None, True),
        ("gpt-4o", False, False),
        ("gpt-3.5-turbo", None, False),
        ("gpt-3.5-turbo", True, True),
        ("somebodys-own", None, True),
        ("somebodys-own", False, False),
    ],
)
def test_an_admins_choice_wins_over_the_name(
    ana: Member, vibe: Agent, thread: Thread, model: str, choice: bool | None, is_shown: bool
) -> None:
    seeing(ana, model, sees_images=choice)
    request = show(thread, ana, "@vibe what is it?", description="A brick wall")
    prompt = prompt_for(vibe, request)
    words = "".join(message.content for message in prompt.messages)
    assert seen_names(prompt) == ({"wall.png"} if is_shown else set())
    assert (NOTICE in words) is is_shown
    assert "wall.png [image of the request, 600×400 pixels" in words
    assert "]: A brick wall" in words


def test_the_offline_model_reads_of_images(ana: Member, vibe: Agent, thread: Thread) -> None:
    prompt = prompt_for(vibe, show(thread, ana, "@vibe what is it?"))
    assert not seen_names(prompt)
    assert "(nobody described it)" in "".join(message.content for message in prompt.messages)


def test_without_images_nothing_is_said_of_them(ana: Member, vibe: Agent, thread: Thread) -> None:
    seeing(ana)
    prompt = prompt_for(vibe, say(thread, ana, "@vibe when?"))
    assert "image" not in "".join(message.content for message in prompt.messages[1:])


def test_a_secret_in_a_description_is_masked(ana: Member, vibe: Agent, thread: Thread) -> None:
    seeing(ana)
    prompt = prompt_for(vibe, show(thread, ana, "@vibe?", description="A wall, password=hunter22"))
    assert seen_names(prompt) == {"wall.png"}
    told = without_images(prompt.messages)  # where the endpoint turns out to take none
    for message in (*prompt.messages, *told):
        assert "hunter22" not in message.content
    assert "An image that this model cannot see: wall.png" in told[-1].content
    assert told[-1].content.endswith(prompt.messages[-1].content)  # the question stays last


def test_a_dive_sees_the_images_of_its_source_and_of_no_other_message(ana: Member, vibe: Agent, thread: Thread) -> None:
    seeing(ana)
    show(thread, ana, "Another.", names=("other.png",))
    source = show(thread, ana, "The wall.")
    vibe.level = 3
    vibe.save()
    dive = start_dive(source=source, by=access(ana), agent=vibe.participant)
    prompt = prompt_for(vibe, say(dive.thread, ana, "What do you see?"), task="dive")
    assert seen_names(prompt) == {"wall.png"}
    assert "image of the message this dive started from" in prompt.messages[-2].content


def test_images_of_other_threads_and_of_deleted_messages_are_in_no_prompt(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    seeing(ana)
    show(make_thread(thread.channel, ana), ana, names=("elsewhere.png",))
    deleted = show(thread, ana, names=("gone.png",))
    delete_message(message=deleted, by=access(ana))
    prompt = prompt_for(vibe, say(thread, ana, "@vibe?"))
    assert not [item for item in prompt.included if item.section in ("images", "request_images")]
    assert not [item for item in prompt.dropped if item.section in ("images", "request_images")]


def test_a_prompt_asks_once_more_for_any_number_of_images(ana: Member, vibe: Agent, thread: Thread) -> None:
    seeing(ana)

    def queries(request: Message) -> int:
        prompt_for(vibe, request)
        with CaptureQueriesContext(connection) as captured:
            prompt_for(vibe, request)
        return len(captured)

    none = queries(say(thread, ana, "@vibe?"))
    one = queries(show(thread, ana, "@vibe?"))
    show(thread, ana, names=("a.png", "b.png"))
    assert (one - none, queries(show(thread, ana, "@vibe?")) - one) == (1, 0)


def test_a_stored_prompt_refers_to_images_and_holds_none(ana: Member, vibe: Agent, thread: Thread) -> None:
    seeing(ana)
    show(thread, ana, "The wall.")
    prompt = prompt_for(vibe, say(thread, ana, "@vibe?"))
    content = json.loads(json.dumps(snapshot_content(prompt)))
    stored = content_messages(content)
    assert [len(message.images) for message in stored] == [len(message.images) for message in prompt.messages]
    assert all(len(image.data) == 8 for message in stored for image in message.images)
    counter = prompt.counter
    assert count_prompt_tokens(stored, prompt.tools, counter) == prompt.tokens
    assert shared_prefix_with([], stored, prompt) == prompt.tokens - 3

    image = Image.objects.get()
    describe_image(image=image, by=access(ana), description="Not the same words")
    later = prompt_for(vibe, say(thread, ana, "@vibe?"))
    assert shared_prefix_with([], stored, later) < shared_prefix_tokens(prompt.messages, prompt.messages, counter)


def test_the_viewer_shows_what_the_reader_may_see(ana: Member, ben: Member, vibe: Agent, thread: Thread) -> None:
    seeing(ana)
    image = show(thread, ana, "The wall.", description="A wall").images.get()
    prompt = prompt_for(vibe, say(thread, ana, "@vibe?"))

    def items(viewer: Member) -> list[tuple[str, int | None, str]]:
        view = view_of_prompt(prompt, access(viewer))
        every = [item for section in view.sections for item in section.items]
        return [(item.text, item.image_id, item.hidden) for item in every if item.key.startswith("pixels:")]

    assert items(ana) == [("", image.pk, "")]
    delete_message(message=image.message, by=access(ana))
    ((text, image_id, hidden),) = items(ana)
    assert (text, image_id, hidden) == ("", None, "deleted since")
    view = view_of_prompt(prompt, access(ana))
    assert not any(message.images for message in view.messages)
    assert not any("A wall" in message.content for message in view.messages)
