"""A JVM that says what ``java.util.regex`` itself makes of a pattern."""

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from mmtool.config import load_settings


class JavaRegex:
    """One JVM for the session; a question is one line."""

    def __init__(self):
        java = shutil.which("java")
        assert java, "Java 17 must be on PATH"
        self._process = subprocess.Popen(
            [java, "-Xmx128m", "-XX:+UseSerialGC", str(Path(__file__).with_name("JavaMatches.java"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="ascii",
        )

    def matches(self, pattern, names):
        """Per name whether Java's ``matches`` says yes; None when Java refuses the pattern."""
        self._process.stdin.write(" ".join(map(self._word, [pattern, *names])) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        return None if answer == "refused" else [bit == "1" for bit in answer]

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=10)

    @staticmethod
    def _word(text):
        return "=" + base64.b64encode(text.encode()).decode()


@pytest.fixture(scope="session")
def java_regex():
    jvm = JavaRegex()
    yield jvm
    jvm.close()


HEAD = """\
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""


@pytest.fixture
def load(tmp_path):
    """Settings of a file with two clusters, one flow and these lines; ``head`` replaces the first ones."""

    def read(text="", *, head=HEAD, environ=None):
        path = tmp_path / "mm2.properties"
        path.write_bytes(text if isinstance(text, bytes) else (head + text).encode())
        return load_settings(path, environ or {})

    return read
