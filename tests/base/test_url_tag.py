"""`{% url %}` gives what Django's gives, again and again."""

import pytest
from django.template import Context, Template
from django.template.defaulttags import URLNode
from django.urls import NoReverseMatch, set_script_prefix

from openvibe.base.url_tag import CachedURLNode


def render(text: str, **values: object) -> str:
    return Template(text).render(Context(values))


@pytest.mark.parametrize(
    "tag",
    [
        "{% url 'inbox' slug %}",
        "{% url 'thread' slug number %}",
        "{% url 'thread' slug=slug thread_id=number %}",
        "{% url name slug %}",
        "{% url 'nowhere' as place %}[{{ place }}]",
        "{% url 'inbox' slug as place %}{{ place }}",
        "{% url 'admin:index' %}",
    ],
)
def test_an_address_is_djangos(tag: str) -> None:
    template = Template(tag)
    (node,) = template.nodelist.get_nodes_by_type(URLNode)
    assert isinstance(node, CachedURLNode)
    django = Template(tag)
    django.nodelist[0] = URLNode(node.view_name, node.args, node.kwargs, node.asvar)
    for slug, number in (("bench", 1), ("garden", 12), ("bench", 1)):
        values = {"slug": slug, "number": number, "name": "inbox"}
        assert template.render(Context(values)) == django.render(Context(values))


def test_an_address_that_there_is_not_is_an_error_each_time() -> None:
    for _ in range(2):
        with pytest.raises(NoReverseMatch):
            render("{% url 'thread' slug %}", slug="bench")


def test_an_address_begins_where_the_site_does() -> None:
    text = "{% url 'inbox' slug %}"
    assert render(text, slug="bench") == "/w/bench/"
    set_script_prefix("/sub/")
    try:
        assert render(text, slug="bench") == "/sub/w/bench/"
    finally:
        set_script_prefix("/")
    assert render(text, slug="bench") == "/w/bench/"
