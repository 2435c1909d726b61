"""The query that reads any row of an outbox: the broker's, and that of a relay (`oncelog.tools.outbox`).

Owns: the SQL, and the text behind its bytes. Does not own: which rows are read, and what they become. It imports no
library.

`oncelog.produce` writes only rows that can be read. A row that was inserted by hand, or by an older version of the
function, may have anything that PostgreSQL can store, and must not hold up the others. So text is read as the bytes
that the database has, since its own conversion to UTF-8 fails a whole query; a value larger than a record may be is not
read at all, as it may be hundreds of times as large as its table; and a time is one that a record may have.
"""

_RAW = "decode(replace({0}::text, chr(92), chr(92) || chr(92)), 'escape')"
"""The bytes of a text: unlike convert_to() and a client's encoding it checks nothing."""
_JSON = "pg_column_size(headers || '[]'::jsonb)"
"""The size of the headers, neither compressed nor out of line. As text they are at most six times as large."""
MEASURED = f"""
  id, topic, key, value, headers, partition, case when at between to_timestamp(0) and clock_timestamp() then at
  else clock_timestamp() end as at,
  coalesce(octet_length(key), 0)::bigint + coalesce(octet_length(value), 0) + case when headers is null then 0
  when {_JSON} > {{largest}} then {_JSON} else octet_length(headers::text) end as size"""
"""The columns of a row, and its `size`."""
READ = f"""
  id, case when octet_length(topic) <= 249 then {_RAW.format("topic")} end,
  case when size <= {{largest}} then key end, case when size <= {{largest}} then value end,
  case when size <= {{largest}} and headers is not null then {_RAW.format("headers")} end,
  partition, (extract(epoch from at) * 1000)::bigint, size"""
"""The columns that are read of `MEASURED`, in this order."""
_CODECS = {"UTF8": "utf-8", "SQL_ASCII": "utf-8", "KOI8R": "koi8_r", "KOI8U": "koi8_u", "EUC_CN": "gb2312"}
"""Python's codecs for PostgreSQL's encodings that it names otherwise. WIN before a number is cp in Python."""


class TextProblem(ValueError):
    """Raised for bytes that are no text in the encoding of their database."""


def text_of(data: bytes | None, encoding: str) -> str | None:
    """Return the text of bytes from a database with this `server_encoding`. Raises TextProblem."""
    if data is None:
        return None
    try:
        return data.decode(_CODECS.get(encoding) or encoding.replace("WIN", "cp"))
    except UnicodeDecodeError:
        wanted = "UTF-8" if encoding in ("UTF8", "SQL_ASCII") else encoding
        raise TextProblem(f"not {wanted}: {_excerpt(data)}") from None
    except LookupError:
        raise TextProblem(f"text in {encoding}, which cannot be read") from None


def read_texts(topic: bytes | None, headers: bytes | None, encoding: str) -> tuple[str, str | None, str]:
    """Return the topic and the headers of a row, and what is wrong with them, or ""."""
    try:
        name = text_of(topic, encoding)
    except TextProblem as problem:
        return "", None, f"the name of its topic is {problem}"
    if not name:
        return "", None, "the name of its topic is longer than 249 bytes, or empty"
    try:
        return name, text_of(headers, encoding), ""
    except TextProblem as problem:
        return name, None, f"its headers are {problem}"


def _excerpt(data: bytes) -> str:
    return repr(bytes(data[:40]))[1:] + ("..." if len(data) > 40 else "")
