"""What to do about a certificate that OpenSSL does not accept, by its own words.

Owns: the hints, for the client and for the tools that use none.
"""


def certificate_hint(said: str) -> str | None:
    """Return what to do, for a program that connects to a broker; None if the words are no reason to know more."""
    if "mismatch" in said:
        return "connect by a name that the certificate has, or set ssl_endpoint_identification_algorithm=''"
    if "expired" in said:
        return (
            "it has ended, or one of its authorities' has: renew it at the broker, which reads it again on SIGHUP "
            "(systemctl reload); if it is still good, the clock of this machine is wrong"
        )
    if "not yet valid" in said:
        return "its time has not begun: the clock of this machine is behind, or that of who made it ahead"
    return None
