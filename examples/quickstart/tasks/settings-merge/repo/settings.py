"""Settings from several places, later ones over earlier ones."""


def merged(*layers):
    """One dictionary of all layers; nested dictionaries are merged, everything else is replaced."""
    result = {}
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, dict) and isinstance(result.get(key), dict):
                result[key].update(value)
            else:
                result[key] = value
    return result


def lookup(settings, path, default=None):
    """The value at a dotted path."""
    for part in path.split("."):
        if not isinstance(settings, dict) or part not in settings:
            return default
        settings = settings[part]
    return settings
