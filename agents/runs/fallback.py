"""The fallback of a run: the model that is asked once the first one fails, when, and what is said where both fail."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

from agents.agent.models import Run
from agents.prompts.assembler.assemble import Prompt
from openvibe.base.problems import Problem
from openvibe.engines.llm.errors import ModelError, ModelTimeout
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.protocol import ModelClient

MAX_FAILURES = 2
"""The most failures of a run's first model; then its fallback is asked."""


@dataclass(frozen=True)
class Fallback:
    """The model that is asked when the first one fails. `assemble` makes the run's prompt for it."""

    endpoint: Endpoint
    client: ModelClient
    max_output_tokens: int | None
    assemble: Callable[..., Prompt]

    @property
    def model(self) -> str:
        return self.client.model


def no_fallback() -> Fallback | None:
    return None


def choose_fallback(
    run: Run,
    error: ModelError,
    find_fallback: Callable[[], Fallback | None],
    *,
    failures: int,
    first_error: ModelError | None,
) -> Fallback | None:
    """The fallback that is asked after an error; None where the model is asked once more, since that may help.

    `failures`: of the first model, this one included. `first_error`: of the first model, where the fallback was asked
    already. Raises the error where there is no fallback, with both reasons where that failed, too.
    """
    if first_error is not None:
        raise both_failed(run, first_error, error)
    fallback = find_fallback()
    if fallback is None:
        raise error
    if failures < MAX_FAILURES and (error.may_pass or isinstance(error, ModelTimeout)):
        return None
    return fallback


def both_failed(run: Run, first: ModelError, second: ModelError | Problem, second_model: str = "") -> ModelError:
    """What people are told where the fallback failed, too: both reasons, under the code of the first."""
    first_model, second_model = (run.first_model, run.model) if run.first_model else (run.model, second_model)
    words = second.message if isinstance(second, Problem) else str(second)
    error = copy(first)
    error.args = (f"{first_model}: {first} {second_model}, its fallback: {words}",)
    return error
