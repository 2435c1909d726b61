"""`oncelog token`: delegation tokens of any Kafka-compatible cluster (KIP-48).

Owns: the options and rows. Does not own: connecting, printing, errors (`asking`). Invariant: a token is named by its
id. Its HMAC, which is a password, is never typed, and shown only by the commands that are asked for it.
"""

from typing import TYPE_CHECKING

import click

from oncelog.protocol.printable import printable_names
from oncelog.tools.asking import Answer, NotFound, Session, Shown, asks, principal_of
from oncelog.tools.positions import duration_ms
from oncelog.tools.terminal import Row

if TYPE_CHECKING:
    from oncelog.client.admin.descriptions import DelegationToken

_LONGEST_MS = 100 * 365 * 86_400_000
_DEFAULT_MS = -1
"""The default duration: what the broker has as the longest time, or for an expiry: at once."""
_HOW_TO_USE = (
    'A client logs in with it by SCRAM: the id is its user, the HMAC its password, and tokenauth="true" is in its '
    "sasl.jaas.config."
)


@click.group()
def token() -> None:
    """Delegation tokens: create, list, renew and expire them."""


def _period(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int:
    """Return milliseconds, as a click callback."""
    milliseconds = _DEFAULT_MS if text is None else duration_ms(text)
    if milliseconds > _LONGEST_MS:
        raise click.BadParameter(f"{text} is longer than a hundred years")
    return milliseconds


def _row(found: "DelegationToken", *, with_hmac: bool) -> Row:
    return {
        "token_id": found.token_id,
        **({"hmac": found.hmac} if with_hmac else {}),
        "owner": found.owner,
        "requester": found.requester,
        "renewers": list(found.renewers),
        "issue_time_ms": found.issue_time_ms,
        "expiry_time_ms": found.expiry_time_ms,
        "max_time_ms": found.max_time_ms,
    }


@asks(token)
@click.option(
    "--owner", metavar="USER", help="The user it logs in as; needs CREATE_TOKENS on that user.  [default: you]"
)
@click.option("--renewer", "renewers", metavar="USER", multiple=True, help="Who may renew and expire it, too.")
@click.option(
    "--max-lifetime",
    "max_lifetime_ms",
    metavar="DURATION",
    callback=_period,
    help="Such as 12h or 7d, renewals included.  [default: the broker's longest]",
)
async def create(session: Session, owner: str | None, renewers: tuple[str, ...], max_lifetime_ms: int) -> Shown:
    """Make a token for yourself, and show it with its HMAC.

    Keep that as you keep a password.
    """
    made = await session.admin.create_delegation_token(
        owner=None if owner is None else principal_of(owner),
        renewers=[principal_of(each) for each in renewers],
        max_lifetime_ms=max_lifetime_ms,
    )
    return Answer(_row(made, with_hmac=True), hint=_HOW_TO_USE)


@asks(token, "list")
@click.option("--owner", "owners", metavar="USER", multiple=True, help="Those that this user owns or may renew.")
@click.option("--show-hmac", is_flag=True, help="With their HMACs, which are passwords.")
async def list_(session: Session, owners: tuple[str, ...], show_hmac: bool) -> Shown:
    """List the tokens that you may see."""
    found = await session.admin.describe_delegation_tokens(*map(principal_of, owners))
    return Answer([_row(each, with_hmac=show_hmac) for each in found], "There is no token.")


@asks(token)
@click.argument("token_id", metavar="TOKEN_ID")
@click.option(
    "--period", "period_ms", metavar="DURATION", callback=_period, help="From now.  [default: the broker's longest]"
)
async def renew(session: Session, token_id: str, period_ms: int) -> Shown:
    """Let a token count longer.

    As long as the broker lets it, or for --period from now.
    """
    hmac = await _hmac_of(session, token_id)
    expiry_time_ms = await session.admin.renew_delegation_token(hmac, renew_period_ms=period_ms)
    return {"token_id": token_id, "expiry_time_ms": expiry_time_ms}


@asks(token, question=lambda token_id, **_: f"End the token {printable_names([token_id])}?")
@click.argument("token_id", metavar="TOKEN_ID")
@click.option("--after", "after_ms", metavar="DURATION", callback=_period, help="From now.  [default: at once]")
async def expire(session: Session, token_id: str, after_ms: int) -> Shown:
    """End a token, at once or --after a while."""
    hmac = await _hmac_of(session, token_id)
    expiry_time_ms = await session.admin.expire_delegation_token(hmac, expiry_period_ms=after_ms)
    return {"token_id": token_id, "expiry_time_ms": expiry_time_ms}


async def _hmac_of(session: Session, token_id: str) -> str:
    for each in await session.admin.describe_delegation_tokens():
        if each.token_id == token_id:
            return each.hmac
    raise NotFound(f"you see no token {token_id!r}; `oncelog token list` shows those there are")
