"""Replace known words in every text that is about to be shown: secrets, and the properties file of this command.

Texts say ``-c FILE`` wherever a command needs the properties file: what makes them does not know which file it is.

Of secrets this is the last safeguard. The first one is the configuration, which never puts a secret into a message.
This one covers text of others: an exception of a client library, a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from mmtool.plain_text import MARKING_WORDS, Lines, printable

HIDDEN = "[hidden]"
FILE_OPTION = " -c FILE"
NOTHING: Mapping[str, str] = MappingProxyType({})

_ASSIGNMENT = re.compile(
    rf"""(?ix)
    ( (?<! [\w.\-] ) (?= [\w.\-]*? (?: {MARKING_WORDS} ) ) [\w.\-]++  # each word once: a name may have 32,767 letters
      ["']? (?<! \.properties ) \s* [=:] \s* )  # a file may be called after a secret; what follows is a line number
    (?! \[hidden\] )
    ( "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | [^\s,;}})\]]+ )
    """
)
_PLACE = re.compile(r"(?:\A|(?<=\s))(?:https?:/)?(?:/[\w.\-]+)+/\Z")
"""An absolute path, or a URL without a user, up to its last part: a colon and a blank after it begin a sentence."""
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)


def redacted(text: str, replaced: Mapping[str, str] = NOTHING) -> str:
    """The text with words replaced, without values assigned to a secret's name, and without private keys."""
    for word in sorted(replaced, key=len, reverse=True):
        text = text.replace(word, replaced[word])
    text = _PRIVATE_KEY.sub(HIDDEN, text)
    return _ASSIGNMENT.sub(_without_value, text)


def _without_value(found: re.Match[str]) -> str:
    is_place = found[1].endswith(": ") and _PLACE.search(found.string, 0, found.start())
    return found[0] if is_place else found[1] + HIDDEN


def shown(text: str, replaced: Mapping[str, str] = NOTHING) -> str:
    """A sentence as it may be shown: words replaced, names printable; only `Lines` may have line breaks."""
    kept = redacted(text, replaced)
    return kept if isinstance(text, Lines) else printable(kept)
