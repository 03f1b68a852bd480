"""Souls to test with: Fern, and anything hypothesis can think of."""

import yaml
from hypothesis import strategies as st

from agents.agent.soul import (
    ESCALATION_ACTIONS,
    RESPONSE_STYLES,
    Behavior,
    Capabilities,
    Constraints,
    EscalationRule,
    Identity,
    Philosophy,
    Soul,
    soul_to_dict,
)
from agents.agent.soul.values import UNPRINTABLE

FERN = """\
identity:
  name: Fern
  role: Gardener of the roof
  description: |-
    Knows every plant by name.
    Answers for the roof garden.
philosophy:
  principles:
    - Water in the morning
    - Ask before you prune
  values: [patience]
capabilities:
  domains: [plants, soil]
  tools: [knowledge_search]
  limitations: [no advice about mushrooms]
behavior:
  response_style: minimal
  progressive_disclosure: true
  proactive_triggers: [frost tonight]
  max_output_tokens: 800
constraints:
  restricted_topics: [salaries]
  never_do:
    - Recommend poison
  escalation_rules:
    - condition: somebody ate a plant
      action: escalate_to_human
"""

letters = st.characters(exclude_categories=["Cs"]).map(lambda letter: UNPRINTABLE.sub("~", letter))
texts = st.text(letters | st.sampled_from("\n :#-'\"{}[]&*!|>%@`"), max_size=40).map(str.strip)
words = texts.map(lambda text: text or "word")
lines = words.map(lambda text: " ".join(text.split()))
lists = st.lists(words, max_size=4).map(tuple)

souls = st.builds(
    Soul,
    identity=st.builds(Identity, name=lines, role=lines, description=texts, avatar=texts),
    philosophy=st.builds(Philosophy, principles=lists, values=lists),
    capabilities=st.builds(Capabilities, domains=lists, tools=lists, limitations=lists),
    behavior=st.builds(
        Behavior,
        response_style=st.sampled_from(RESPONSE_STYLES),
        progressive_disclosure=st.booleans(),
        proactive_triggers=lists,
        max_output_tokens=st.none() | st.integers(1, 10**9),
    ),
    constraints=st.builds(
        Constraints,
        restricted_topics=lists,
        never_do=lists,
        escalation_rules=st.lists(
            st.builds(EscalationRule, condition=words, action=st.sampled_from(ESCALATION_ACTIONS)), max_size=3
        ).map(tuple),
    ),
)


def soul_to_yaml(soul: Soul) -> str:
    """Every field, in the order of a SOUL's fields."""
    text: str = yaml.safe_dump(soul_to_dict(soul), sort_keys=False, allow_unicode=True)
    return text
