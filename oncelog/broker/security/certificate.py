"""What a certificate says of its owner: the distinguished name as Java writes it, and the alternative names; and when
it ends.

Owns: reading these out of DER. Does not own: whether a certificate is valid, which OpenSSL has decided by then.
Invariant: text in a certificate cannot forge a name: what separates its parts is escaped (RFC 2253, as
`X500Principal.getName`).
"""

from calendar import timegm
from collections.abc import Iterator
from time import strptime
from typing import NamedTuple

_SEQUENCE, _SET, _OID, _EXPLICIT_0, _EXTENSIONS = 0x30, 0x31, 0x06, 0xA0, 0xA3
_UTC_TIME = 0x17
_STRINGS = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1E: "utf-16-be"}
_SUBJECT_ALT_NAME = "2.5.29.17"
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED = frozenset(',=+<>#;"\\')


class Names(NamedTuple):
    distinguished_name: str
    """The distinguished name with the most specific part first: `CN=alice,OU=payments,O=example`."""
    alternative_names: frozenset[bytes]
    """The alternative names, as DER."""
    end_s: int
    """When the certificate ends, in seconds since 1970."""


class _Element(NamedTuple):
    tag: int
    value: memoryview
    whole: memoryview
    """The whole element with its tag and length."""


def certificate_names(der: bytes) -> Names:
    """Raises ValueError for what is no certificate."""
    try:
        certificate = next(_elements(memoryview(der)))  # in a TRUSTED CERTIFICATE, OpenSSL's uses of it follow
        to_be_signed = list(_elements(next(_elements(certificate.value)).value))
        if to_be_signed[0].tag == _EXPLICIT_0:  # the version
            to_be_signed = to_be_signed[1:]
        subject = to_be_signed[4]
        alternative = [part for part in to_be_signed[5:] if part.tag == _EXTENSIONS]
        names = frozenset(_alternative_names(alternative[0]) if alternative else ())
        return Names(_name(subject), names, _end_s(to_be_signed[3]))
    except (IndexError, StopIteration, ValueError) as error:
        raise ValueError("this is no certificate") from error


def _elements(data: memoryview) -> Iterator[_Element]:
    position = 0
    while position < len(data):
        tag, size = data[position], data[position + 1]
        start = position + 2
        if size & 0x80:
            start += size & 0x7F
            size = int.from_bytes(data[position + 2 : start], "big")
        end = start + size
        if end > len(data):
            raise ValueError("an element is cut off")
        yield _Element(tag, data[start:end], data[position:end])
        position = end


def _name(subject: _Element) -> str:
    parts = [
        "+".join(_attribute(*_elements(attribute.value)) for attribute in _elements(part.value))
        for part in _elements(subject.value)
    ]
    return ",".join(reversed(parts))


def _end_s(validity: _Element) -> int:
    """A two-digit year is one between 1950 and 2049 (RFC 5280)."""
    _, end = _elements(validity.value)
    text = str(bytes(end.value), "ascii")
    if end.tag == _UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text
    return timegm(strptime(text, "%Y%m%d%H%M%SZ"))


def _attribute(kind: _Element, value: _Element) -> str:
    oid = _oid(bytes(kind.value))
    keyword = _KEYWORDS.get(oid)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or oid}=#{value.whole.hex()}"
    text = str(bytes(value.value), _STRINGS[value.tag], "replace")
    escaped = "".join(f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text)
    inner = escaped.strip(" ")
    if not inner:
        return f"{keyword}={escaped.replace(' ', chr(92) + ' ')}"
    before, after = len(escaped) - len(escaped.lstrip(" ")), len(escaped) - len(escaped.rstrip(" "))
    return f"{keyword}={before * (chr(92) + ' ')}{inner}{after * (chr(92) + ' ')}"


def _oid(data: bytes) -> str:
    numbers = [data[0] // 40, data[0] % 40] if data[0] < 80 else [2, data[0] - 80]
    number = 0
    for byte in data[1:]:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    return ".".join(map(str, numbers))


def _alternative_names(extensions: _Element) -> Iterator[bytes]:
    (listed,) = _elements(extensions.value)
    for extension in _elements(listed.value):
        kind, *_, value = _elements(extension.value)
        if _oid(bytes(kind.value)) == _SUBJECT_ALT_NAME:
            (names,) = _elements(value.value)
            yield from (bytes(name.whole) for name in _elements(names.value))
