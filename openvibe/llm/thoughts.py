"""What a model thinks before it speaks, where an endpoint sends it as text: it is no part of the answer. Pure."""

import re

_TAGS = ("<think>", "<thinking>", "<thought>", "<reasoning>")
_CLOSING = re.compile(r"</(?:think|thinking|thought|reasoning)\s*>", re.IGNORECASE)
_MAX_CLOSING = 20  # characters of a closing tag that may have come in part


class IncrementalThoughts:
    """Takes the thoughts out with which a text begins that comes in pieces. Tags further on are words like others."""

    def __init__(self) -> None:
        self._pending = ""
        self._is_thought = self._has_thought = self._is_answer = False

    def remove(self, piece: str) -> str:
        """What of the text is certain by now to be answer."""
        if self._is_answer:
            return piece
        self._pending += piece
        while not self._is_answer:
            if self._is_thought:
                closing = _CLOSING.search(self._pending)
                if closing is None:
                    self._pending = self._pending[-_MAX_CLOSING:]
                    return ""
                self._pending, self._is_thought, self._has_thought = self._pending[closing.end() :], False, True
            start = self._pending.lstrip()
            tag = next((tag for tag in _TAGS if start.lower().startswith(tag)), "")
            if tag:
                self._pending, self._is_thought = start[len(tag) :], True
            elif any(tag.startswith(start.lower()) for tag in _TAGS):
                return ""
            else:
                self._is_answer = True
        return self.rest()

    def rest(self) -> str:
        """What is still held back, once all of the text has come: of a thought nothing."""
        text, self._pending = self._pending, ""
        return "" if self._is_thought else text.lstrip() if self._has_thought else text
