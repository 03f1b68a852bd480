"""What the client's README shows."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "client" / "README.md"


def readme_agent() -> str:
    """The agent in thirty lines, as it stands there."""
    (script,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return str(script)
