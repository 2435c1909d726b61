"""sslyze finds nothing in a TLS listener that it calls a weakness, and finds what docs/operate/security.md says."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.conftest import Start
from tests.support.foreign.interop import PLACE, needs
from tests.support.patience import PATIENCE_S
from tests.support.security.certificates import Certificates

pytestmark = pytest.mark.interop

_SSLYZE = PLACE / "sslyze" / "bin" / "sslyze"
_PAGE = (Path(__file__).parents[2] / "docs" / "operate" / "security.md").read_text(encoding="utf-8")
_VERSIONS = ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1", "tls_1_2", "tls_1_3")
_CHECKS = ("--reneg", "--resum", "--compression", "--heartbleed", "--openssl_ccs", "--robot", "--ems")
_SAFE: Mapping[str, Mapping[str, Any]] = {
    "tls_compression": {"supports_compression": False},
    "openssl_ccs_injection": {"is_vulnerable_to_ccs_injection": False},
    "heartbleed": {"is_vulnerable_to_heartbleed": False},
    "robot": {"robot_result": "NOT_VULNERABLE_RSA_NOT_SUPPORTED"},
    "session_renegotiation": {"is_vulnerable_to_client_renegotiation_dos": False},
}
_THE_OPERATORS = ("certificate_path_validation", "certificate_lifespan", "maximum_certificate_lifespan", "certificate_")
_STRONG_CURVES = "tls_curves: TLS curves {"
"""X448 and secp521r1: strong, and not in Mozilla's list. Python 3.11 cannot choose among curves."""


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    needs(_SSLYZE)
    return Certificates(tmp_path).server_settings()


def _with_rsa(settings: dict[str, str], directory: Path) -> dict[str, str]:
    issued = trustme.CA().issue_cert("localhost", "127.0.0.1", key_type=trustme.KeyType.RSA)
    path = directory / "rsa.pem"
    path.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    return {**settings, "ssl.keystore.location": str(path)}


def _scan(start_daemon: Start, directory: Path, settings: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the result of each check, and the deviations from Mozilla's profile."""
    daemon = start_daemon("listeners=SSL://localhost:0", *(f"{name}={value}" for name, value in settings.items()))
    port = daemon.bootstrap.rpartition(":")[2]
    found = directory / "found.json"
    command = [_SSLYZE, "--json_out", found, "--mozilla_config", "intermediate", *_CHECKS, f"127.0.0.1:{port}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    (scanned,) = json.loads(found.read_text())["server_scan_results"]
    assert scanned["scan_status"] == "COMPLETED", ended.stdout
    complaints = re.findall(r"^ {8}\* (.+)$", ended.stdout.partition("COMPLIANCE")[2], re.MULTILINE)
    results = {name: each["result"] for name, each in scanned["scan_result"].items() if each["status"] == "COMPLETED"}
    return results, [each for each in complaints if not each.startswith((*_THE_OPERATORS, _STRONG_CURVES))]


def _suites(results: Mapping[str, Any]) -> dict[str, set[str]]:
    """The accepted cipher suites of each TLS version that is spoken."""
    accepted = {
        version: {
            each["cipher_suite"]["name"] for each in results[f"{version}_cipher_suites"]["accepted_cipher_suites"]
        }
        for version in _VERSIONS
    }
    return {version: suites for version, suites in accepted.items() if suites}


@pytest.mark.parametrize("key", ["on a curve", "RSA"])
def test_the_listener_has_no_weakness_and_the_suites_of_the_page(
    start_daemon: Start, tmp_path: Path, settings: dict[str, str], key: str
) -> None:
    results, complaints = _scan(start_daemon, tmp_path, settings if key != "RSA" else _with_rsa(settings, tmp_path))
    assert complaints == []
    for check, wanted in _SAFE.items():
        assert {name: results[check][name] for name in wanted} == wanted
    assert results["session_renegotiation"]["client_renegotiations_success_count"] == 0
    assert results["tls_fallback_scsv"]["supports_fallback_scsv"]
    assert results["tls_extended_master_secret"]["supports_ems_extension"]
    suites = _suites(results)
    assert suites.keys() == {"tls_1_2", "tls_1_3"}
    of_key = "_RSA_" if key == "RSA" else "_ECDSA_"
    listed = set(re.findall(r"`(TLS_\w+)`", _PAGE.partition("What sslyze finds")[2].partition("\n## ")[0]))
    assert set().union(*suites.values()) == {name for name in listed if "_WITH_" not in name or of_key in name}


@pytest.mark.parametrize(("version", "spoken"), [("TLSv1.2", "tls_1_2"), ("TLSv1.3", "tls_1_3")])
def test_with_one_version_no_other_is_spoken(
    start_daemon: Start, tmp_path: Path, settings: dict[str, str], version: str, spoken: str
) -> None:
    results, _ = _scan(start_daemon, tmp_path, {**settings, "ssl.enabled.protocols": version})
    assert _suites(results).keys() == {spoken}
    for check, wanted in _SAFE.items():
        if check in results:  # renegotiation was abolished by 1.3
            assert {name: results[check][name] for name in wanted} == wanted


def test_where_clients_must_show_certificates_the_rest_is_the_same(
    start_daemon: Start, tmp_path: Path, settings: dict[str, str]
) -> None:
    results, complaints = _scan(start_daemon, tmp_path, {**settings, "ssl.client.auth": "required"})
    assert complaints == []
    assert _suites(results).keys() == {"tls_1_2", "tls_1_3"}
