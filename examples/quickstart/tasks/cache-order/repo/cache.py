"""A cache that forgets what was used longest ago."""

from collections import OrderedDict


class Cache:
    """Holds at most `size` values."""

    def __init__(self, size):
        if size < 1:
            raise ValueError("size must be at least 1")
        self.size = size
        self._values = OrderedDict()

    def get(self, key, default=None):
        """The value under `key`; asking for it is using it."""
        return self._values.get(key, default)

    def put(self, key, value):
        """Keep `value`; what was used longest ago goes when there is no room."""
        self._values[key] = value
        if len(self._values) > self.size:
            self._values.popitem(last=False)

    def keys(self):
        """Keys, the one used longest ago first."""
        return list(self._values)
