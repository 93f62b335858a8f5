"""Files with secrets that others may read are named, and no other files."""

import os

import pytest

from mmtool.config.live import exposed_files

LOGIN = 'A.sasl.jaas.config = X required password="p";\n'


@pytest.fixture
def file(tmp_path):
    """Writes a file with a mode, and returns its path."""

    def write(name, text="x", mode=0o644):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    return write


def named(path):
    return [sentence.split(" holds")[0] for sentence in exposed_files(path, {"STORES": str(path.parent)})]


def test_a_properties_file_with_a_password_that_everybody_may_read_is_named_with_the_command(file):
    path = file("mm 2.properties", LOGIN)
    assert exposed_files(path, {}) == (
        f"{path} holds a secret, and every user of this host may read it: `chmod 600 '{path}'`",
    )


def test_a_file_of_another_user_is_first_given_to_mmtools_which_could_not_read_it_else(file, monkeypatch):
    path = file("mm2.properties", LOGIN)
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    assert exposed_files(path, {}) == (
        (
            f"{path} holds a secret, and every user of this host may read it: as root, make the user of mmtool the"
            f" owner of the file, then `chmod 600 {path}`"
        ),
    )


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_that_only_its_owner_may_read_is_not_named(file, mode):
    assert named(file("mm2.properties", LOGIN, mode)) == []


@pytest.mark.parametrize(
    "text",
    [
        "A.bootstrap.servers = a:9092\n",
        "A.sasl.jaas.config = ${env:JAAS}\n",
        "A.ssl.truststore.certificates = -----BEGIN CERTIFICATE-----\n",
        "A.ssl.truststore.location = ca.jks\n",
        "A.sasl.username = mm\nA.sasl.password = ${env:P}\n",
        "A.sasl.oauthbearer.client.credentials.client.id = mm\n",
        'A.sasl.jaas.config = X required username="mm" password="${env:P}";\n',
        'A.sasl.jaas.config = X required username="mm" password="${env:P}${env:Q}";\n',
        "A.sasl.password = ${env:P} ${file:/dev/null:q}\n",
        "A.sasl.jaas.config = software.amazon.msk.auth.iam.IAMLoginModule required;\n",
    ],
)
def test_a_file_without_a_secret_of_its_own_is_not_named(file, text):
    assert named(file("mm2.properties", text)) == []


def test_the_files_of_placeholders_in_secrets_are_named_and_those_of_other_values_are_not(file):
    secrets, directory, harmless = file("secrets.properties"), file("dir/password"), file("names.properties")
    path = file(
        "mm2.properties",
        f"A.ssl.key.password = ${{file:{secrets}:a}}\nB.ssl.key.password = ${{directory:{directory.parent}:password}}\n"
        f"A.client.id = ${{file:{harmless}:b}}\n",
    )
    assert named(path) == [str(secrets), str(directory)]


@pytest.mark.parametrize(
    "text",
    [
        *(
            f'A.sasl.jaas.config = X required username="mm" {option}="s";\n'
            for option in ("password", "clientSecret", "oauth.client.secret", "oauth.access.token")
        ),
        *(
            f"A.sasl.password = {beside}\n"
            for beside in ("${nocolon}", "${env:P}x", "x${env:P}", "${env:P", "${env:P}}")
        ),
        "A.sasl.jaas.config = X required password=;\n",
    ],
)
def test_what_is_more_than_a_placeholder_or_cannot_be_read_counts_as_a_secret(file, text):
    path = file("mm2.properties", text)
    assert named(path) == [str(path)]


def test_files_with_bearer_tokens_are_named(file):
    one, other = file("one.token"), file("other.token")
    path = file(
        "mm2.properties",
        f"A.sasl.oauthbearer.token.endpoint.url = file://{one}\n"
        f'B.sasl.jaas.config = X required oauth.access.token.location="{other}";\n',
    )
    assert named(path) == [str(one), str(other)]


def test_key_stores_and_private_keys_are_named_and_trust_stores_are_not(file):
    store, key, trust = file("key.jks"), file("key.pem"), file("trust.jks")
    path = file(
        "mm2.properties",
        f"A.ssl.keystore.location = ${{env:STORES}}/key.jks\nB.ssl.key.location = {key}\n"
        f"A.ssl.truststore.location = {trust}\n",
    )
    assert named(path) == [str(store), str(key)]


def test_the_mode_of_a_kubernetes_secret_is_left_to_its_mount(file, tmp_path):
    file("..2026_01_31/mm2.properties", LOGIN)
    (tmp_path / "..data").symlink_to("..2026_01_31")
    (tmp_path / "mm2.properties").symlink_to("..data/mm2.properties")
    assert named(tmp_path / "mm2.properties") == []


def test_a_file_of_a_group_is_named_for_its_owner_and_not_where_root_lends_it_to_a_service(file, monkeypatch):
    path = file("mm2.properties", LOGIN, 0o640)
    status = path.stat()
    assert bool(named(path)) == (status.st_uid != 0 and status.st_gid != os.getuid())
    os.chown(path, 12_345, 23_456)
    monkeypatch.setattr("os.getuid", lambda: 12_345)
    assert [sentence for sentence in exposed_files(path, {}) if "group 23456 may read it" in sentence] != []


def test_a_store_that_is_not_there_is_no_matter_of_modes(file):
    assert named(file("mm2.properties", "A.ssl.keystore.location = /nowhere/key.jks\n")) == []
