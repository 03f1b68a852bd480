"""Addresses of model servers as people write them."""

import pytest

from agents.connect.model_connection import base_urls


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("gpu-box:11434", "http://gpu-box:11434/v1 http://gpu-box:11434"),
        ("localhost:1234", "http://localhost:1234/v1 http://localhost:1234"),
        ("192.168.1.20", "http://192.168.1.20/v1 http://192.168.1.20"),
        ("[fd00::5]:8080", "http://[fd00::5]:8080/v1 http://[fd00::5]:8080"),
        ("ollama.lan", "http://ollama.lan/v1 http://ollama.lan"),
        ("models.example", "https://models.example/v1 https://models.example"),
        ("models.example:8443/v1", "https://models.example:8443/v1"),
        ("93.184.216.34:8000/v1", "https://93.184.216.34:8000/v1"),
        ("https://models.example:8443/v1/", "https://models.example:8443/v1"),
        ("http://gpu-box:11434/api", "http://gpu-box:11434/v1 http://gpu-box:11434"),
        ("http://gpu-box:11434/api/chat", "http://gpu-box:11434/v1 http://gpu-box:11434"),
        ("https://api.example/v1/chat/completions", "https://api.example/v1"),
        ("https://api.example/v1/models", "https://api.example/v1"),
        ("https://gw.example/openai", "https://gw.example/openai https://gw.example/openai/v1"),
        ("https://gw.example/v1beta/openai", "https://gw.example/v1beta/openai"),
        ("  http://gpu-box:8000/v1  ", "http://gpu-box:8000/v1"),
    ],
)
def test_what_is_left_out_is_added(text: str, urls: str) -> None:
    assert base_urls(text) == tuple(urls.split())
    assert all(base_urls(url)[0] == url for url in base_urls(text)[:1]), "what was found is found again"


@pytest.mark.parametrize(
    "text",
    [
        *("", "ftp://models.example", "http://[::1", "https://models\t.example", "https://a.example/v1?x=1", "//x/v1"),
        *("http://", "https://müller.example/v1", "file:///etc/passwd", "gpu box:11434"),
    ],
)
def test_what_is_no_address_stays_as_it_is_for_whoever_refuses_it(text: str) -> None:
    assert base_urls(text) == (text,)
