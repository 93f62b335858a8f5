"""The bill of materials: what `cyclonedx-py` does not see is added, and the result fits CycloneDX's schema."""

import hashlib
import json
import runpy
import zipfile
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "deploy" / "_tools"
SBOM = runpy.run_path(str(TOOLS / "sbom.py"), run_name="sbom")
LISTED = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.6",
    "version": 1,
    "metadata": {"component": {"type": "application", "name": "mmtool", "bom-ref": "root"}},
    "components": [{"type": "library", "name": "pyspark", "version": "4.3.0", "bom-ref": "pyspark"}],
}


@pytest.fixture
def jar(tmp_path):
    def made(name, *coordinates):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("Main.class", name)
            for group, artifact, version in coordinates:
                pom = f"#Created by Maven\nversion={version}\ngroupId={group}\nartifactId={artifact}\n"
                archive.writestr(f"META-INF/maven/{group}/{artifact}/pom.properties", pom)
        return tmp_path / name

    return made


def component(path):
    found = SBOM["component"](path)
    return found["name"], found["version"], found.get("purl")


def test_a_jar_is_listed_by_the_maven_coordinates_that_it_names(jar):
    path = jar("log4j-core-2.25.1.jar", ("org.apache.logging.log4j", "log4j-core", "2.25.1"))
    assert component(path) == (
        "log4j-core", "2.25.1", "pkg:maven/org.apache.logging.log4j/log4j-core@2.25.1",
    )  # fmt: skip


def test_a_jar_with_others_inside_is_listed_as_itself(jar):
    inner, own = ("com.google.guava", "guava", "33.0"), ("org.apache.spark", "spark-core_2.13", "4.3.0")
    assert component(jar("spark-core_2.13-4.3.0.jar", inner, own))[0] == "spark-core_2.13"


def test_a_jar_without_coordinates_is_listed_by_its_file_name(jar):
    assert component(jar("scala-library-2.13.18.jar")) == ("scala-library", "2.13.18", None)
    assert component(jar("plain.jar")) == ("plain", "", None)


def test_a_jar_can_be_looked_up_by_its_digest(jar):
    path = jar("xz-1.12.jar")
    expected = hashlib.sha256(path.read_bytes()).hexdigest()
    assert SBOM["component"](path)["hashes"] == [{"alg": "SHA-256", "content": expected}]


def test_the_document_has_mmtools_version_and_sparks_jars_as_parts_of_pyspark(jar, tmp_path):
    jar("xz-1.12.jar")
    found = json.loads(SBOM["complete"](json.dumps(LISTED), "0.1.0", tmp_path))
    assert found["metadata"]["component"]["purl"] == "pkg:pypi/mmtool@0.1.0"
    (pyspark,) = found["components"]
    assert [part["name"] for part in pyspark["components"]] == ["xz"]
