"""NVML's units become ours here and nowhere else."""

_BITS_OF_INT = 32


def ratio_from_percent(percent: float) -> float:
    """0 to 1 from 0 to 100."""
    return percent / 100


def watts_from_milliwatts(milliwatts: float) -> float:
    """Watts."""
    return milliwatts / 1_000


def joules_from_millijoules(millijoules: float) -> float:
    """Joules."""
    return millijoules / 1_000


def seconds_from_nanoseconds(nanoseconds: float) -> float:
    """Seconds."""
    return nanoseconds / 1_000_000_000


def signed_from_unsigned(value: int) -> int:
    """A 32-bit number that was read as unsigned, with its sign: nvmlDeviceGetTemperature hands out negatives that way."""
    return value - (1 << _BITS_OF_INT) if value >> (_BITS_OF_INT - 1) else value
