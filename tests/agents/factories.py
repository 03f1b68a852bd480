"""Rows of agents, for tests of what reads them."""

from factory.django import DjangoModelFactory

from agents.models import LoadedSkill


class LoadedSkillFactory(DjangoModelFactory[LoadedSkill]):
    """A skill that `agent` has open in `thread`; past the tool that opens it."""

    class Meta:
        model = LoadedSkill

    name = "pruning"
