"""Predict high tides from the phase of the moon, roughly."""

from datetime import datetime, timedelta

LUNAR_DAY = timedelta(hours=24, minutes=50)


def high_tides(first: datetime, days: int) -> list[datetime]:
    """Return the times of high water: two in every lunar day, starting from a known one."""
    half = LUNAR_DAY / 2
    end = first + timedelta(days=days)
    times = []
    at = first
    while at < end:
        times.append(at)
        at += half
    return times


if __name__ == "__main__":
    for tide in high_tides(datetime(2026, 1, 1, 5, 30), days=3):
        print(tide.strftime("%a %H:%M"))
