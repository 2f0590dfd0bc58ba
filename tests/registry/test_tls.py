"""A registry behind TLS whose certificate no public authority has signed: commands and pipelines find it by `SSL_CERT_FILE`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from eventide.cli.registry import registry
from eventide.errors import DefinitionError
from eventide.registry.client import RegistryClient, RegistryUnavailable
from tests.registry.conftest import Process


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("tls")
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*make, *named], cwd=here, check=True, capture_output=True)
    return here / "cert.pem"


@pytest.fixture(scope="module")
def behind(certificate: Path) -> Iterator[str]:
    """Its address."""
    keys = ["--tls-cert", str(certificate), "--tls-key", str(certificate.with_name("key.pem"))]
    running = Process(f"sqlite:///{certificate.parent}/registry.db", *keys)
    yield running.url.replace("http://", "https://")
    running.stop()


def listed(url: str, monkeypatch: pytest.MonkeyPatch, trusted: Path | None) -> tuple[int, str]:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    if trusted is not None:
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    asked = CliRunner().invoke(registry, ["list", "--url", url])
    return asked.exit_code, asked.output


def test_its_certificate_is_taken_from_the_environment(behind: str, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = listed(behind, monkeypatch, certificate)
    assert (code, said) == (0, "no subject is registered\n")


def test_one_that_nobody_vouches_for_is_refused(behind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = listed(behind, monkeypatch, None)
    assert code == 3 and "certificate verify failed" in said and "SSL_CERT_FILE" in said


def test_a_client_takes_the_file_that_it_is_given(behind: str, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with RegistryClient(behind, verify=str(certificate)) as client:
        assert client.call("GET", "/subjects") == []
    with RegistryClient(behind, tries=1) as client, pytest.raises(RegistryUnavailable, match="verify failed"):
        client.call("GET", "/subjects")


def test_proxies_and_passwords_of_the_environment_are_left_alone(
    behind: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    assert listed(behind, monkeypatch, certificate)[0] == 0


def test_a_file_of_certificates_that_is_none_is_named(behind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing, wrong = tmp_path / "missing.pem", tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    for named in (missing, wrong):
        code, said = listed(behind, monkeypatch, named)
        assert code == 2 and str(named) in said and "SSL_CERT_FILE" in said
        with pytest.raises(DefinitionError, match=named.name):
            RegistryClient(behind, verify=str(named))
    assert listed("http://127.0.0.1:1", monkeypatch, missing)[0] == 3, "without TLS nobody asks for it"
