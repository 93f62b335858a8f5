r"""Restore the line breaks of PEM documents, which are one line in a properties file, for OpenSSL.

Java's clients accept any white space between header, base64 and footer. OpenSSL needs header and footer on lines of
their own, and limits the length of base64 lines.
"""

from __future__ import annotations

import re

_BLOCK = re.compile(r"-{5}BEGIN ([A-Z0-9 ]+)-{5}([^-]*+(?:-(?!----)[^-]*+)*+)-{5}END \1-{5}")
_HEADERS = re.compile(r"\s*(Proc-Type:\s*4,ENCRYPTED)\s+(DEK-Info:\s*[A-Z0-9-]+,[0-9A-Fa-f]+)\s+")
_SPACE = re.compile(r"(?:\s|\\[rn])+")
_LINE = 64


def pem_document(text: str) -> str:
    """The PEM blocks of a text, in lines as OpenSSL reads them; text between the blocks is left out.

    Args:
        text: A file's content, or a value; a backslash and an ``n`` that reached it as two characters are a line
            break as well.

    Raises:
        ValueError: The text has no PEM block.
    """
    blocks = [_block(match.group(1), match.group(2)) for match in _BLOCK.finditer(_spaced(text))]
    if not blocks:
        raise ValueError("PEM text, which begins with -----BEGIN ...-----")
    return "".join(blocks)


def _spaced(text: str) -> str:
    """The text with the words of its headers and footers separated by one blank."""
    return re.sub(r"-{5}(?:BEGIN|END)[^-]*-{5}", lambda match: _SPACE.sub(" ", match.group()), text)


def _lines(content: str) -> list[str]:
    return [content[at : at + _LINE] for at in range(0, len(content), _LINE)]


def _block(label: str, body: str) -> str:
    found = _HEADERS.match(_SPACE.sub(" ", body))
    headers = [*found.groups(), ""] if found else []
    content = _SPACE.sub("", _SPACE.sub(" ", body)[found.end() :] if found else body)
    return "\n".join([f"-----BEGIN {label}-----", *headers, *_lines(content), f"-----END {label}-----", ""])
