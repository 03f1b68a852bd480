"""Servers of real small models, and what is measured with them."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from hypothesis import settings as hypothesis_settings
from pytest_django.fixtures import Settings

from openvibe.engines.llm.models import Endpoint
from openvibe.runner.local_model.process import ServedModel, serve_model
from openvibe.runner.local_model.weights import MODELS, LocalModelError, default_cache
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory
from tests.operations.processes import free_port

CONTEXT_TOKENS = 8_192
PATIENT_SECONDS = 600
"""The patience in seconds with an endpoint: a small model on a busy machine reads ten tokens a second."""
figures: list[str] = []
"""What this run measured, a line each."""

Serve = Callable[..., ServedModel]
Connect = Callable[..., Endpoint]


def pytest_ignore_collect() -> bool | None:
    """Everything here, unless `make nightly` asks for it."""
    return hypothesis_settings.get_current_profile_name() != "nightly" or None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in figures:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def serve() -> Iterator[Serve]:
    """Starts a server of a size, or gives the one that runs with the same options. All end with the tests."""
    with ExitStack() as servers:

        @cache
        def started(size: str = "0.5b", *, context: int = CONTEXT_TOKENS, offers_tools: bool = True) -> ServedModel:
            threads = max(1, (os.cpu_count() or 2) - 1)
            try:
                served = serve_model(
                    MODELS[size],
                    cache=default_cache(),
                    port=free_port(),
                    context=context,
                    threads=threads,
                    offers_tools=offers_tools,
                )
            except LocalModelError as error:
                pytest.fail(f"The nightly tests need a real small model: {error}", pytrace=False)
            return servers.enter_context(served)

        yield started


@pytest.fixture
def connect(ana: Member, settings: Settings) -> Connect:
    """Lets the workspace's agents answer with a served model; `fields` are the endpoint's."""
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    settings.MODEL_FIRST_ANSWER_SECONDS = settings.MODEL_TOTAL_SECONDS = PATIENT_SECONDS

    def connected(served: ServedModel, model: str = "qwen2.5-coder-0.5b", **fields: object) -> Endpoint:
        return EndpointFactory.create(
            workspace=ana.workspace,
            name="Small",
            base_url=served.base_url,
            model=model,
            is_default=True,
            **{"context_window": CONTEXT_TOKENS, "output_reserve": 512, "timeout_seconds": PATIENT_SECONDS} | fields,
        )

    return connected
