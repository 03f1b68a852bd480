"""The page *Connect a model*: a key in one field, and agents answer with what it is for; or a sentence, and nothing
changed."""

from collections.abc import Callable
from threading import Event

import pytest
from pytest_django.fixtures import Settings

from agents.agent.access import endpoint_for
from agents.connect.model_connection import ModelRequest, connect_model
from agents.connect.presets import Preset
from agents.models import Agent
from openvibe.base.models import AuditRecord
from openvibe.base.problems import Problem, Refused
from openvibe.engines.llm.endpoints import endpoints
from openvibe.engines.llm.endpoints.endpoints import CALLED_TOOL, TRIAL_PROMPT, TRIAL_TOOL, try_endpoint
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Member
from tests.engines.llm.model_server import Answer, Asked, serving
from tests.factories import access, make_agent, signed_in

KEY = "sk-proj-very-secret-0123456789-abcdefghij"


def provider(asked: Asked) -> Answer:
    """One that offers two models, of which the second answers."""
    if asked.path.endswith("/models"):
        return Answer("broken good-mini")
    return Answer("Hello!") if asked.body["model"] == "good-mini" else Answer(status=500, headers={"Retry-After": "0"})


@pytest.fixture
def page(ana: Member) -> str:
    return f"/w/{ana.workspace.slug}/connect-model/"


def test_a_key_in_one_field_lets_the_agents_answer(ana: Member, vibe: Agent, page: str, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(script=provider) as server:
        form = {"api_key": f" {KEY}\n", "provider": "other", "base_url": server.base_url, "model": "good-mini"}
        browser = signed_in(ana)
        answer = browser.post(page, form, follow=True)
        second_response = browser.post(page, form, follow=True)
    endpoint = Endpoint.objects.get()
    assert (endpoint.api_key, endpoint.model, endpoint.timeout_seconds) == (KEY, "good-mini", 120)
    assert endpoint_for(vibe) == endpoint
    for each in (answer, second_response):
        text = each.content.decode()
        assert "Vibe answers with good-mini from now on." in text
        assert KEY not in text
    rows = AuditRecord.objects.filter(action="endpoint").order_by("pk").values_list("subject", "after")
    made = f"made, with good-mini at {server.base_url}"
    assert list(rows)[:2] == [("127.0.0.1", made), ("the default model", "127.0.0.1")]
    assert KEY not in str(list(AuditRecord.objects.values()))


def test_another_model_is_chosen_only_once_it_answers(ana: Member, vibe: Agent, page: str, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    browser = signed_in(ana)
    with serving(script=provider) as server:
        form = {"api_key": KEY, "provider": "other", "base_url": server.base_url, "agent": vibe.pk}
        failed = browser.post(page, form, headers={"HX-Request": "true"}).content.decode()
        assert "broken does not answer: The endpoint has trouble of its own" in failed
        assert "<option>good-mini</option>" in failed
        assert not Endpoint.objects.exists()
        response = browser.post(page, {**form, "other_model": "good-mini"}, headers={"HX-Request": "true"})
    vibe.refresh_from_db()
    endpoint = vibe.endpoint
    assert endpoint is not None
    assert (endpoint.model, endpoint.is_default) == ("good-mini", False)
    assert response["HX-Redirect"] == f"{page}?connected={endpoint.pk}"
    html = browser.get(response["HX-Redirect"]).content.decode()
    assert f'href="/w/{ana.workspace.slug}/settings/models/{endpoint.pk}/"' in html
    assert f"/settings/models/{endpoint.pk}/" not in browser.get(page).content.decode()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=401, error={"message": f"Incorrect API key: {KEY}"}), "refused the key"),
        (Answer(""), "offers no model"),
        (Answer(body=b"<!doctype html><p>Welcome"), "web page"),
        (Answer(body=b"x" * 5_000_000), "plain text"),
        (Answer(body=b'{"data": ' + b'[{"id": "m"}], "x": "' + b"y" * 5_000_000), "endpoint"),
    ],
    ids=["wrong-key", "no-models", "html", "5-mb", "5-mb-of-broken-json"],
)
def test_what_does_not_work_is_a_sentence_and_leaves_nothing(
    ana: Member, page: str, settings: Settings, answer: Answer, words: str
) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(answer) as server:
        form = {"api_key": KEY, "provider": "other", "base_url": server.base_url}
        response = signed_in(ana).post(page, form)
    text = response.content.decode()
    assert response.status_code == 400
    assert words in text
    assert "Nothing was saved." in text
    assert server.base_url in text
    assert KEY not in text
    assert len(text) < 40_000
    assert not Endpoint.objects.exists()


def test_a_provider_that_stalls_is_given_up(
    ana: Member, page: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    monkeypatch.setattr(endpoints, "FETCH_SECONDS_LIMIT", 0.2)
    never = Event()
    with serving(Answer("m", hold=never)) as server:
        form = {"api_key": KEY, "provider": "other", "base_url": server.base_url}
        text = signed_in(ana).post(page, form).content.decode()
        never.set()
    assert "did not list its models in time: it had 0.2 seconds." in text
    assert "Nothing was saved." in text
    assert not Endpoint.objects.exists()


def test_what_cannot_be_asked_is_said_at_once(ana: Member, page: str) -> None:
    browser = signed_in(ana)
    for form, words in (
        ({"api_key": ""}, "Choose the provider"),
        ({"api_key": "a" * 32}, "Choose the provider"),
        ({"api_key": "", "provider": "OpenAI"}, "Paste the key"),
        ({"api_key": "sk-proj-ключ", "provider": "OpenAI"}, "plain letters"),
        ({"api_key": "k" * 1_001, "provider": "OpenAI"}, "longer than any key"),
        ({"api_key": KEY, "provider": "other"}, "Enter the address"),
        ({"api_key": KEY, "base_url": "http://10.0.0.5/v1"}, "own network"),
        ({"api_key": KEY, "base_url": "ftp://models.example"}, "https://"),
        ({"api_key": KEY, "base_url": "http://[::1"}, "not an address"),
        ({"base_url": "10.0.0.5:11434"}, "OPENVIBE_ALLOWED_ENDPOINT_HOSTS=10.0.0.5:11434"),
        ({"base_url": "[fd00::5]:8080"}, "OPENVIBE_ALLOWED_ENDPOINT_HOSTS=[fd00::5]:8080"),
        ({"base_url": "169.254.169.254"}, "It is never called"),
        ({"api_key": KEY, "provider": "OpenAI", "base_url": "http://10.0.0.5/v1"}, "Both OpenAI and an address"),
        ({"api_key": KEY, "base_url": "https://models\t.example"}, "plain ASCII"),
        ({"api_key": KEY, "model": "m" * 201}, "Model: Ensure this value has at most 200 characters"),
        ({"api_key": KEY, "agent": "999999"}, "Who answers with it: This agent does not answer any more."),
        ({"api_key": KEY, "provider": "nobody"}, "Provider: Select a valid choice."),
        ({"api_key": "k\x00", "provider": "OpenAI"}, "Key: Null characters are not allowed."),
        ({"api_key": KEY, "provider": "OpenAI", "other_model": "m" * 201}, "longer than any model&#x27;s name"),
        ({"local": "Ollama", "local_model": "m" * 201}, "longer than any model&#x27;s name"),
        ({"local": "Ollama"}, "superuser"),
        ({"local": "Nobody"}, "no such server"),
    ):
        answer = browser.post(page, form)
        assert answer.status_code in (400, 403)
        assert words in answer.content.decode()
        alert = browser.post(page, form, headers={"HX-Request": "true"}).content.decode()
        assert words in alert, "the part of the page that says what came of it"
    assert not Endpoint.objects.exists()


def test_only_admins_connect_models_and_only_superusers_look_around_this_machine(
    ana: Member, dora: Member, page: str
) -> None:
    browser = signed_in(dora)
    assert "ask one of them" in browser.get(page).content.decode()
    response = browser.post(page, {"api_key": KEY, "provider": "OpenAI"})
    assert response.status_code == 403
    assert KEY not in response.content.decode()
    assert signed_in(ana).get(f"{page}local/").status_code == 404
    assert browser.get("/connect-model/", follow=True).redirect_chain == [(page, 302)]


def test_a_superuser_allows_one_address_of_this_machine_for_one_endpoint(ana: Member, vibe: Agent) -> None:
    with serving(script=provider) as server, serving(Answer("Hello!")) as neighbour:
        request = ModelRequest(preset=Preset("Ollama", server.base_url, is_local=True), model="good-mini")
        by, garden = access(ana), ana.workspace
        with pytest.raises(Refused):
            connect_model(workspace=garden, by=by, request=request, is_superuser=False)
        endpoint = connect_model(workspace=garden, by=by, request=request, is_superuser=True).endpoint
        assert endpoint.is_free
        assert try_endpoint(endpoint=Endpoint.objects.get()).ok
        endpoint.base_url = neighbour.base_url
        assert "own network" in try_endpoint(endpoint=endpoint).message
        elsewhere = ModelRequest(preset=Preset("Other", neighbour.base_url))
        with pytest.raises(Problem, match="own network"):
            connect_model(workspace=garden, by=by, request=elsewhere, is_superuser=True)
    assert neighbour.asked == []
    assert AuditRecord.objects.filter(subject__startswith="calls to http://127.0.0.1").exists()


def test_agents_of_other_workspaces_are_no_choice(ana: Member, cleo: Member, page: str, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    stranger = make_agent(cleo, "spy")
    with serving(script=provider) as server:
        form = {"api_key": KEY, "provider": "other", "base_url": server.base_url, "agent": stranger.pk}
        assert signed_in(ana).post(page, form).status_code == 400
    assert server.asked == []


def by_path(pages: dict[str, Answer], *, otherwise: Answer) -> Callable[[Asked], Answer]:
    """A script that lists models at some paths, finds nothing at others, and answers what is posted."""
    return lambda asked: otherwise if asked.path.endswith("/completions") else pages.get(asked.path, Answer(status=404))


@pytest.mark.parametrize("root", ["/v1", "", "/llm"])
@pytest.mark.parametrize("form", ["{host}{root}", "{host}", "http://{host}{root}/chat/completions", " {host}{root}/ "])
def test_a_server_at_any_port_is_added_where_the_operator_allows_it(
    ana: Member, vibe: Agent, page: str, settings: Settings, root: str, form: str
) -> None:
    """Whatever of its address is left out is found by asking."""
    if root == "/llm" and "{root}" not in form:
        return
    models = Answer(body=b'{"data": [{"id": "bge-m3"}, {"id": "qwen2.5-coder:7b"}]}')
    pages = {f"{root}/models": models}
    with serving(script=by_path(pages, otherwise=Answer("Hello!"))) as server, serving(Answer("Hello!")) as neighbour:
        settings.ALLOWED_ENDPOINT_HOSTS = [f"127.0.0.1:{server.port}"]
        browser = signed_in(ana)
        address = form.format(host=f"127.0.0.1:{server.port}", root=root)
        text = browser.post(page, {"base_url": address}, follow=True).content.decode()
        refused = browser.post(page, {"base_url": f"127.0.0.1:{neighbour.port}"}).content.decode()
    assert "Vibe answers with qwen2.5-coder:7b from now on." in text
    endpoint = Endpoint.objects.get()
    assert (endpoint.base_url, endpoint.allowed_address) == (f"http://127.0.0.1:{server.port}{root}", "")
    assert AuditRecord.objects.filter(after__endswith=endpoint.base_url).exists()
    assert f"OPENVIBE_ALLOWED_ENDPOINT_HOSTS=127.0.0.1:{neighbour.port}" in refused
    assert neighbour.asked == []


def test_a_model_that_another_server_offered_is_not_asked_for(ana: Member, page: str, settings: Settings) -> None:
    """The other server's choice stands in the form until the next answer comes."""
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(script=provider) as first, serving(Answer("second-model")) as second:
        browser, htmx = signed_in(ana), {"HX-Request": "true"}
        text = browser.post(page, {"base_url": first.base_url, "model": "broken"}, headers=htmx).content.decode()
        assert f'name="offered_by" value="{first.base_url}"' in text
        choice = {"other_model": "good-mini", "offered_by": first.base_url}
        browser.post(page, {"base_url": second.base_url, **choice}, headers=htmx)
        assert Endpoint.objects.get().model == "second-model"
        browser.post(page, {"base_url": first.base_url, **choice}, headers=htmx)
    assert Endpoint.objects.filter(model="good-mini").exists()


def test_an_address_without_an_api_is_said_with_what_was_asked(ana: Member, page: str, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(Answer(status=404)) as server:
        text = signed_in(ana).post(page, {"base_url": f"127.0.0.1:{server.port}"}).content.decode()
    root = f"http://127.0.0.1:{server.port}"
    assert f"Neither {root}/v1 nor {root} lists models." in text
    assert "type the model&#x27;s name under Model" in text


def test_a_dead_server_is_said_with_what_to_do(ana: Member, page: str, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(Answer("m")) as server:
        pass
    text = signed_in(ana).post(page, {"base_url": server.base_url}).content.decode()
    assert "nothing listens at this address and port" in text
    assert "has to listen on 0.0.0.0" in text


def test_the_operators_hosts_are_shown_to_superusers_alone(ana: Member, page: str, settings: Settings) -> None:
    settings.ALLOWED_ENDPOINT_HOSTS = ["gpu-box.lan:11434"]
    assert "gpu-box.lan" not in signed_in(ana).get(page).content.decode()
    ana.user.is_superuser = True
    ana.user.save()
    assert "Allowed now: gpu-box.lan:11434." in signed_in(ana).get(page).content.decode()


def test_a_trial_sends_what_a_prompt_has(ana: Member, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(Answer("Hello!")) as server:
        row = Endpoint(workspace=ana.workspace, name="Ours", base_url=server.base_url, model="m")
        assert try_endpoint(endpoint=row).ok
    body = server.asked[0].body
    assert [message.role for message in TRIAL_PROMPT] == ["system", "user", "assistant", "user", "user"]
    assert [message["role"] for message in body["messages"]] == [message.role for message in TRIAL_PROMPT]
    assert body["stream"] is True
    assert [tool["function"]["name"] for tool in body["tools"]] == [TRIAL_TOOL.name]
    assert "<request>" in body["messages"][-1]["content"]


def test_whatever_comes_is_an_answer(ana: Member, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    call = Answer(tool_calls=(("c1", TRIAL_TOOL.name, '{"query": "hello"}'),))
    thinking = Answer("", finish_reason="length")
    with serving(call, thinking, Answer("")) as server:
        row = Endpoint(workspace=ana.workspace, name="Ours", base_url=server.base_url, model="m")
        called, thought, silent = (try_endpoint(endpoint=row) for _ in range(3))
    assert (called.ok, called.message) == (True, CALLED_TOOL)
    assert (thought.ok, "thought for all of the 1,000 tokens" in thought.message) == (True, True)
    assert (silent.ok, "answered nothing" in silent.message) == (False, True)


def test_what_a_client_did_to_be_answered_is_said(ana: Member, vibe: Agent, page: str, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    loading = Answer(status=503, error={"message": "Loading model", "type": "unavailable_error", "code": 503})
    with serving(Answer("m"), loading, Answer("Hello!")) as server:
        text = signed_in(ana).post(page, {"base_url": server.base_url}, follow=True).content.decode()
    assert "Vibe answers with m from now on." in text
    assert "The model has to be loaded first." in text


def test_a_server_that_refuses_prompts_is_not_connected(ana: Member, page: str, settings: Settings) -> None:
    """The server would answer one bare message."""
    settings.ALLOW_PRIVATE_ENDPOINTS = True

    def script(asked: Asked) -> Answer:
        if not asked.path.endswith("/completions"):
            return Answer("m")
        is_bare = len(asked.body["messages"]) == 1
        return Answer("Hello!") if is_bare else Answer(status=500, error={"message": "Cannot apply this template"})

    with serving(script=script) as server:
        text = signed_in(ana).post(page, {"base_url": server.base_url}).content.decode()
    assert "m does not answer" in text
    assert "Cannot apply this template" in text
    assert not Endpoint.objects.exists()


def test_a_server_with_nothing_but_embedders_is_said(ana: Member, page: str, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(Answer("bge-m3 all-minilm")) as server:
        text = signed_in(ana).post(page, {"base_url": server.base_url}).content.decode()
    assert "none of its models looks made for conversations (all-minilm, bge-m3)" in text
    assert "<option>bge-m3</option>" in text
    assert not Endpoint.objects.exists()


def test_three_thousand_models_are_a_page_of_its_usual_size(ana: Member, page: str, settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    names = " ".join(
        ["text-embedding-0", *(f"vendor-{number % 7}/model-{number}b" for number in range(3_000)), "zeta:8b"]
    )

    def script(asked: Asked) -> Answer:
        return Answer(status=400) if asked.path.endswith("/completions") else Answer(names)

    with serving(script=script) as server:
        browser = signed_in(ana)
        text = browser.post(page, {"base_url": server.base_url}).content.decode()
        offered = browser.post(
            f"/w/{ana.workspace.slug}/settings/models/offered/", {"kind": "openai", "base_url": server.base_url}
        ).json()
    assert "It offers 3,002 models" in text
    assert text.count("<option>") == 100
    assert len(text) < 40_000
    assert len(offered["models"]) == 3_002
    assert (offered["models"][-2:], offered["message"][:56]) == (
        ["zeta:8b", "text-embedding-0"],
        "It offers 3,002 models, 3,001 of them for conversations.",
    )
