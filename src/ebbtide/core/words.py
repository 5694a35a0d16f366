"""Times, durations, counts, shares and money as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

MINUTE, HOUR, DAY = 60, 3600, 86_400
MOST_DIGITS = 6
SHORT_ID_CHARACTERS = 6
CENTS, PRICE_DIGITS = 2, 4


def a_time(epoch: int) -> str:
    """`2026-01-01 14:20 UTC`: the record keeps seconds since 1970, which nobody can read."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M UTC")


def a_while(seconds: int) -> str:
    """`45 s`, `15 min`, `10 h 20 min`, `2 days 3 h`: the two largest units, without zeros."""
    seconds = max(0, seconds)
    if seconds < 2 * MINUTE:
        return f"{seconds} s"
    if seconds < HOUR:
        return _two(seconds, (MINUTE, "min"), (1, "s"))
    if seconds < DAY:
        return _two(seconds, (HOUR, "h"), (MINUTE, "min"))
    return _two(seconds, (DAY, "day" if seconds < 2 * DAY else "days"), (HOUR, "h"))


def a_measured_while(seconds: float) -> str:
    """`40.2 s`, `4 min 20 s`: of what was measured, tenths count while it is short."""
    return f"{seconds:.1f} s" if seconds < 2 * MINUTE else a_while(round(seconds))


def _two(seconds: int, large: tuple[int, str], small: tuple[int, str]) -> str:
    first, rest = divmod(seconds, large[0])
    second = rest // small[0]
    return f"{first} {large[1]}" + (f" {second} {small[1]}" if second else "")


def time_of_day(epoch: int) -> str:
    """`14:20 UTC`, for what is near."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%H:%M UTC")


def count_of(number: int, noun: str, plural: str = "") -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def expected_nodes(number: int) -> str:
    return f"{count_of(number, 'node')} {'exists or is' if number == 1 else 'exist or are'} expected"


def notices_open(number: int) -> str:
    return f"{count_of(number, 'spot notice')} {'is' if number == 1 else 'are'} being answered"


def names_of(names: Sequence[str], most: int = 5) -> str:
    """The names, or the first few of them and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def short_id(long: str) -> str:
    """The end of an id, which tells two apart: its beginning is the time."""
    return long if len(long) <= SHORT_ID_CHARACTERS else f"…{long[-SHORT_ID_CHARACTERS:]}"


def two_shares(value: float, limit: float) -> tuple[str, str]:
    """Both with as many digits as it takes to tell them apart: 0.704 is not shown as 0.70 next to 0.70."""
    digits = 2
    while digits < MOST_DIGITS and value != limit and f"{value:.{digits}f}" == f"{limit:.{digits}f}":
        digits += 1
    return f"{value:.{digits}f}", f"{limit:.2f}"


def a_price(amount: Decimal) -> str:
    """Cents from one unit on, hundredths of them below, and two digits of what is smaller still: prices an
    hour are small, and nobody reads six digits."""
    return _rounded(amount, _price_digits(amount))


def a_price_range(low: Decimal, high: Decimal) -> str:
    """Both with the same digits, as one amount is read next to the other: 0.3736 to 0.5140."""
    digits = _price_digits(low)
    return f"{low:.{digits}f} to {high:.{digits}f}"


def two_prices(amount: Decimal, limit: Decimal) -> tuple[str, str]:
    """Both with as many digits as it takes to tell them apart."""
    one, other = _price_digits(amount), _price_digits(limit)
    while amount != limit and _rounded(amount, one) == _rounded(limit, other) and one < MOST_DIGITS:
        one, other = one + 1, other + 1
    return _rounded(amount, one), _rounded(limit, other)


def _price_digits(amount: Decimal) -> int:
    if abs(amount) >= 1 or not amount:
        return CENTS
    return max(PRICE_DIGITS, 1 - amount.adjusted())


def _rounded(amount: Decimal, digits: int) -> str:
    """Without the zeros at its end, except for cents."""
    whole, _, part = f"{amount:.{digits}f}".partition(".")
    return f"{whole}.{part.rstrip('0').ljust(CENTS, '0')}"
