"""Numbers for people: a unit, few digits, and no number at all for the unknown."""

_KIB = 1024
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_FEW = 10
_TWO_MINUTES = 120


def percent(ratio: float | None) -> str | None:
    """Whole percent; one digit more below 10 % if there is one to show."""
    if ratio is None:
        return None
    value = ratio * 100
    if 0 < value < _FEW:
        return f"{value:.1f}".removesuffix(".0") + "\u202f%"
    return f"{value:.0f}\u202f%"


def size(amount: int | None) -> str | None:
    """Bytes in the largest binary unit that leaves at least 1."""
    if amount is None:
        return None
    value, unit = float(amount), 0
    while value >= _KIB and unit < len(_UNITS) - 1:
        value, unit = value / _KIB, unit + 1
    return f"{value:.1f}".removesuffix(".0") + f"\u202f{_UNITS[unit]}"


def number(value: float | None) -> str | None:
    """A whole number."""
    return None if value is None else f"{value:.0f}"


def duration(seconds: float | None) -> str | None:
    """Seconds below two minutes, minutes below two hours, then hours."""
    if seconds is None:
        return None
    for limit, width, unit in ((120, 1, "s"), (7200, 60, "min")):
        if seconds < limit:
            return f"{seconds / width:.0f}\u202f{unit}"
    return f"{seconds / 3600:.0f}\u202fh"


def lasting(seconds: float | None) -> str | None:
    """How long something has lasted, in two units: ``2 h 10 min``, ``3 d 4 h``; seconds below two minutes."""
    if seconds is None or seconds < _TWO_MINUTES:
        return duration(seconds)
    minutes = int(seconds // 60)
    for width, unit, below, part_unit in ((1440, "d", 60, "h"), (60, "h", 1, "min")):
        if minutes >= width:
            rest = minutes % width // below
            whole = f"{minutes // width}\u202f{unit}"
            return f"{whole} {rest}\u202f{part_unit}" if rest else whole
    return f"{minutes}\u202fmin"


def short_uuid(uuid: str) -> str:
    """Enough to tell it from its neighbours: ``GPU-0a0a0a0a…0003``; the full one stands in the title."""
    head, tail = "-".join(uuid.split("-")[:2]), uuid[-4:]
    return f"{head}\u2026{tail}" if len(uuid) > len(head) + len(tail) else uuid


def width(ratio: float | None) -> str:
    """Of a bar, 0 to 100."""
    return f"{min(max(ratio or 0.0, 0.0), 1.0) * 100:.1f}"


def part(amount: float | None, whole: float | None) -> float | None:
    """Amount over whole; None if either is unknown or the whole is nothing."""
    return amount / whole if amount is not None and whole else None
