r"""Java's regular expressions, as far as ``re`` gives them the same meaning.

MM2 passes the file's patterns to ``java.util.regex``. The two engines backtrack alike, and what filters of topics and
groups are made of means the same in both, once sets are ASCII, ``.`` and ``$`` know Java's ends of a line, and
``(?i)`` is a group. Every other construct is refused by name, never guessed; a wrong filter would silently mirror the
wrong topics.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["PatternRefusedError", "compile_java"]

_NOT_LINE_END = r"[^\n\r\x85\u2028\u2029]"
_BEFORE_LAST_LINE_END = r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)"

_SET = r"\\[dDwWsS]"
_CODE = r"\\(?:[tnrf]|x[0-9a-fA-F]{2}|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})"
_IN_CLASS = rf"(?:{_CODE}|\\[^a-zA-Z0-9]|(?!&&)[^\\\[\]])"
_CLASS = rf"\[(?P<head>\^?+(?:](?!-)|(?!])))(?P<items>(?:{_SET}|{_IN_CLASS}(?:-{_IN_CLASS}|(?!-[^\]])))*)"
_TOKEN = re.compile(
    rf"""
    \\Q(?!\\E)(?P<quoted>.+?)(?:\\E|\Z)
    | (?P<same>
        [|^] | {_SET} | \\[bB](?!\{{) | {_CODE}
        | (?: [*+?] | \{{[0-9]{{1,9}}(?:,[0-9]{{0,9}})?}} ) \?? (?!\+)
      )
    | (?P<dot>\.)
    | (?P<end>\$)
    | (?P<opening>\( (?: (?!\?) | \?(?:<?[=!]|<[a-zA-Z][a-zA-Z0-9]*>) | \?(?P<flags>[is]*)(?::|(?<!\?)\)) ) )
    | (?P<closing>\))
    | {_CLASS}]
    | (?P<char>\\[^a-zA-Z0-9] | [^\\\[({{*+?])
    """,
    re.VERBOSE | re.DOTALL,
)
_CLASS_PART = re.compile(rf"{_SET}|({_IN_CLASS})(?:-({_IN_CLASS}))?", re.DOTALL)
_CLASS_SO_FAR = re.compile(_CLASS, re.DOTALL)

_REFUSED = [
    (re.compile(construct, re.DOTALL), remedy)
    for construct, remedy in (
        (r"(?:[*+?]|\{[0-9]+,?[0-9]*\})\??\+", "leave out the last +"),
        (r"\{", "write [{] for the character"),
        (r"\(\?[is]+\)", "write (?i:...) around the part that it is for"),
        (r"\(\?(?:<[^=!>]*>|.?)", "write (...), (?i:...), (?=...) or (?!...)"),
        (r"\\(?:[1-9]|k(?:<[^>]*>)?)", "write what it refers to once more"),
        (r"\\[AzZG]", "leave it out, since a pattern matches whole names"),
        (r"\\[pP](?:\{[^}]*\}|.)|\\[hHvV]|&&|\[", "write characters and ranges, such as [a-z0-9]"),
        (r"\\.?", "write the character itself"),
        (r".-", "write both ends of the range, or - as the last character of the class"),
    )
]
"""What mmtool does not read, and what to write instead; the first one that matches counts."""


class PatternRefusedError(ValueError):
    """A pattern that Java refuses, or that mmtool cannot give Java's meaning.

    Attributes:
        pattern: As in the file.
        reason: What is wrong with it.
    """

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"{pattern}: {reason}")
        self.pattern = pattern
        self.reason = reason

    def __reduce__(self) -> tuple[type[PatternRefusedError], tuple[str, str]]:
        return type(self), (self.pattern, self.reason)


@lru_cache(maxsize=256)
def compile_java(pattern: str) -> re.Pattern[str]:
    """Compile a Java pattern; ``fullmatch`` on the result is Java's ``matches``.

    Raises:
        PatternRefusedError: Java refuses it too, or mmtool cannot give it the same meaning.
    """
    try:
        return re.compile(_translated(pattern), re.ASCII)
    except RecursionError:
        raise PatternRefusedError(pattern, "groups are nested too deeply") from None
    except re.error as error:
        raise PatternRefusedError(pattern, error.msg) from None


def _translated(pattern: str) -> str:
    """The pattern as ``re`` writes it, token by token; ``re`` itself finds what is wrong with their order.

    ``(?i)`` at the start of an alternative becomes ``(?i:``, which ends with the group around it.
    """
    written: list[str] = []
    around: list[tuple[set[str], str]] = []
    flags: set[str] = set()
    closing = ""
    position, may_switch = 0, True
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            raise _refused(pattern, position)
        text = token.group()
        if token["opening"] and text.endswith(")"):
            if not may_switch:
                raise _refused(pattern, position)
            is_on = flags >= set(token["flags"])
            text, closing = ("", closing) if is_on else (f"{text[:-1]}:", f"{closing})")
        elif token["opening"]:
            around.append((flags, closing))
            closing = ")"
        if token["closing"]:
            if not around:
                raise PatternRefusedError(
                    pattern, f") (at character {position + 1}) has no opening parenthesis"
                )
            text = closing
            flags, closing = around.pop()
        flags = flags | set(token["flags"] or "")
        if token["dot"]:
            text = "(?s:.)" if "s" in flags else _NOT_LINE_END
        written.append(_atom(token, text))
        may_switch = bool(token["opening"]) or text == "|"
        position = token.end()
    if around:
        raise PatternRefusedError(pattern, "a parenthesis is not closed (at the end of the pattern)")
    return "".join([*written, closing])


def _atom(token: re.Match[str], text: str) -> str:
    if token["quoted"]:
        return re.escape(token["quoted"])
    if token["items"] is not None:
        head, items = token["head"].replace("]", r"\]"), token["items"]
        return f"[{head}{_CLASS_PART.sub(_class_part, items)}]"
    if token["end"]:
        return _BEFORE_LAST_LINE_END
    if token["char"]:
        return _literal(text)
    return re.sub(r"^\(\?<(?=[a-zA-Z])", "(?P<", text)


def _class_part(part: re.Match[str]) -> str:
    return "-".join(_literal(char) for char in part.groups() if char) or part.group()


def _literal(char: str) -> str:
    """A character as ``re`` writes it, in a class or outside; the escapes of tabs and codes are the same."""
    return char if re.fullmatch(_CODE, char) else re.escape(char[-1])


def _refused(pattern: str, position: int) -> PatternRefusedError:
    so_far = _CLASS_SO_FAR.match(pattern, position)
    if so_far is not None:
        position = so_far.end()
        if position == len(pattern):
            return PatternRefusedError(pattern, "a character class is not closed (at the end of the pattern)")
    found, remedy = next(
        (found, remedy) for construct, remedy in _REFUSED if (found := construct.match(pattern, position))
    )
    return PatternRefusedError(
        pattern, f"mmtool does not read {found.group()} (at character {position + 1}): {remedy}"
    )
