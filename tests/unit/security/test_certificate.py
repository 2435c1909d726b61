"""Names in certificates are read as Java writes them, which is what rules and ACLs are written for."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.security.certificate import certificate_names

_KEY = ec.generate_private_key(ec.SECP256R1())
_NOW = datetime.datetime(2026, 1, 1)


def der(subject: x509.Name, *alternative: str, end: datetime.datetime = _NOW + datetime.timedelta(days=1)) -> bytes:
    builder = (
        x509.CertificateBuilder(subject_name=subject, issuer_name=subject, public_key=_KEY.public_key())
        .serial_number(7)
        .not_valid_before(_NOW)
        .not_valid_after(end)
    )
    if alternative:
        names = x509.SubjectAlternativeName([x509.DNSName(name) for name in alternative])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(_KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def of(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])


# What `X500Principal.getName()` of Java 17 gives for each.
JAVA = [
    (
        of((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "Example, Inc."), (NameOID.COMMON_NAME, "alice")),
        "CN=alice,O=Example\\, Inc.,C=DE",
    ),
    (of((NameOID.COMMON_NAME, ' #a"b+c;d<e>f\\g= ')), 'CN=\\ \\#a\\"b\\+c\\;d\\<e\\>f\\\\g\\=\\ '),
    (of((NameOID.EMAIL_ADDRESS, "a@b.c")), "1.2.840.113549.1.9.1=#16056140622e63"),
    (of((NameOID.SERIAL_NUMBER, "12"), (NameOID.USER_ID, "zoë")), "UID=zoë,2.5.4.5=#13023132"),
]


@pytest.mark.parametrize(("subject", "expected"), JAVA, ids=lambda value: value if isinstance(value, str) else "")
def test_a_distinguished_name_is_written_as_java_does(subject: x509.Name, expected: str) -> None:
    assert certificate_names(der(subject)).distinguished_name == expected


def test_the_parts_of_a_multi_valued_part_are_joined_by_a_plus() -> None:
    part = x509.RelativeDistinguishedName(
        [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.USER_ID, "b", _ASN1Type.UTF8String)]
    )
    assert set(certificate_names(der(x509.Name([part]))).distinguished_name.split("+")) == {"CN=a", "UID=b"}


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64))
def test_no_text_in_a_name_can_forge_another_part(text: str) -> None:
    name = certificate_names(der(of((NameOID.ORGANIZATION_NAME, "o"), (NameOID.COMMON_NAME, text)))).distinguished_name
    unescaped = name.replace("\\\\", "").replace("\\,", "").replace("\\+", "").replace("\\=", "")
    assert unescaped.count(",") == 1
    assert unescaped.count("=") == 2
    assert "+" not in unescaped


def test_alternative_names_are_compared_whole() -> None:
    before = certificate_names(der(of((NameOID.COMMON_NAME, "x")), "a.example")).alternative_names
    after = certificate_names(der(of((NameOID.COMMON_NAME, "x")), "b.example", "a.example")).alternative_names
    assert len(before) == 1
    assert before < after


@pytest.mark.parametrize("year", [2027, 2049, 2050, 2150])
def test_the_end_is_read_from_both_kinds_of_times(year: int) -> None:
    """Years from 2050 on have four digits (RFC 5280)."""
    end = datetime.datetime(year, 2, 28, 23, 59, 58, tzinfo=datetime.UTC)
    assert certificate_names(der(of((NameOID.COMMON_NAME, "x")), end=end)).end_s == end.timestamp()


@given(st.binary(max_size=200))
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no certificate"):
        certificate_names(data)


def test_a_truncated_certificate_is_refused() -> None:
    whole = der(of((NameOID.COMMON_NAME, "x")), "a.example")
    for size in range(len(whole)):
        with pytest.raises(ValueError, match="no certificate"):
            certificate_names(whole[:size])
