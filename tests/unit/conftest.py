"""What unit tests of several rooms need."""

import subprocess

import pytest

from mmtool.output import console


@pytest.fixture(autouse=True)
def no_file_of_another_command():
    """A command that ran before in this process has named its properties file."""
    console.switches.start_over()


@pytest.fixture(scope="session")
def pem(tmp_path_factory):
    """A self-signed certificate, and its key encrypted with ``changeit``."""
    directory = tmp_path_factory.mktemp("pem")
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-subj",
            "/CN=broker",
            "-days",
            "2",
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
            "-passout",
            "pass:changeit",
        ],
        cwd=directory,
        check=True,
        capture_output=True,
    )
    return directory
