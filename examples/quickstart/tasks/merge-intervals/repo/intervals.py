"""Half-open intervals of whole minutes: (start, end) with start < end."""


def merge(intervals):
    """The intervals in order, overlapping and touching ones joined."""
    merged = []
    for start, end in sorted(intervals):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def free(busy, day):
    """What is left of `day` beside the busy intervals."""
    gaps, position = [], day[0]
    for start, end in merge(busy):
        if start > position:
            gaps.append((position, start))
        position = max(position, end)
    if position < day[1]:
        gaps.append((position, day[1]))
    return gaps
