"""The software bill of materials of a release: CycloneDX 1.6 as JSON, Python packages and Spark's jars.

``cyclonedx-py`` lists the packages of an environment. Two things it cannot see: mmtool's own version, and the jars
that the package pyspark carries.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from typing import TYPE_CHECKING, Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

if TYPE_CHECKING:
    from pathlib import Path

Component = dict[str, Any]

_POM = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_FILE_NAME = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.+-]*)\.jar")


def complete(listed: str, version: str, jars: Path) -> str:
    """The document with mmtool's version, and with Spark's jars as parts of pyspark.

    Args:
        listed: What ``cyclonedx-py`` has written.
        version: Of mmtool.
        jars: The folder ``pyspark/jars`` of the environment.

    Raises:
        ValueError: The result does not fit CycloneDX's schema.
    """
    document = json.loads(listed)
    document["metadata"]["component"] |= {"version": version, "purl": f"pkg:pypi/mmtool@{version}"}
    (pyspark,) = (one for one in document["components"] if one["name"] == "pyspark")
    pyspark["components"] = [component(jar) for jar in sorted(jars.glob("*.jar"))]
    text = json.dumps(document, indent=2) + "\n"
    _validate(text)
    return text


def component(jar: Path) -> Component:
    """A jar: by its Maven coordinates where it names them, else by its file name; and by its digest."""
    group, name, version = _coordinates(jar)
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    found = {
        "type": "library",
        "bom-ref": f"jar:{jar.name}",
        "name": name,
        "version": version,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    if group:
        found |= {"group": group, "purl": f"pkg:maven/{group}/{name}@{version}"}
    return found


def _coordinates(jar: Path) -> tuple[str, str, str]:
    """Group, name and version. A jar with others inside names them all: only the one that it is called after counts."""
    with zipfile.ZipFile(jar) as archive:
        poms = [archive.read(name).decode() for name in archive.namelist() if _POM.fullmatch(name)]
    for pom in poms:
        told = dict(line.strip().split("=", 1) for line in pom.splitlines() if "=" in line)
        if jar.name.startswith(f"{told.get('artifactId')}-{told.get('version')}"):
            return told["groupId"], told["artifactId"], told["version"]
    named = _FILE_NAME.fullmatch(jar.name)
    return ("", named["name"], named["version"]) if named else ("", jar.stem, "")


def _validate(text: str) -> None:
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"the SBOM does not fit CycloneDX 1.6: {wrong}")
