"""Short names of settings: of a value that is a table, what tells it from the others of its axis."""

from __future__ import annotations

import math
import os
import tomllib
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import pandas as pd

#: Columns whose values need no name before them.
BARE = ("run", "kind")
#: Texts that are longer than this many characters are cut short.
LONG = 40

#: Keys and what they are set to.
Flat = dict[str, str]


def labels(table: pd.DataFrame, by: Sequence[str], settings: Sequence[Sequence[Hashable]]) -> list[str]:
    """One for each of `settings`, which are values of the columns `by` of `table`. Columns without a value are left out."""
    of_columns = [_told(column, table[column].dropna().unique()) for column in by]
    short = _ends({key for column in of_columns for flat in column.values() for key in flat} | set(by))
    found = []
    for values in settings:
        flats = [of.get(value, {}) for of, value in zip(of_columns, values, strict=True)]
        parts = [text if key in BARE else f"{short[key]} {text}" for flat in flats for key, text in flat.items()]
        found.append(", ".join(parts) or "without " + ", ".join(short[column] for column in by))
    again = Counter(found)
    return [f"{label} (setting {nth})" if again[label] > 1 else label for nth, label in enumerate(found, 1)]


def _told(column: str, values: Iterable[Hashable]) -> dict[Hashable, Flat]:
    """By value: the keys that tell it from the others, and what they are set to."""
    flats = {value: _flat(column, _parsed(value)) for value in values}
    telling = _telling(list(flats.values()))
    texts = _shortened({flat[key] for flat in flats.values() for key in telling if key in flat})
    return {value: {key: texts[flat[key]] if key in flat else "not set" for key in telling} for value, flat in flats.items()}


def _parsed(value: Hashable) -> object:
    """A table, or an array of tables, of a value of an axis that is one; else the value."""
    if isinstance(value, str) and value.startswith(("{", "[")):
        try:
            return tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            pass
    return value


def _flat(key: str, value: object) -> Flat:
    """A table by the keys of what is in it; anything else as it is."""
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        inner = list(enumerate(value))
    else:
        return {key: _text(value)}
    flat: Flat = {}
    for name, item in inner:
        flat |= _flat(f"{key}.{name}", item)
    return flat


def _text(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    # Where other folders have no such axis pandas has made whole numbers floating point.
    return f"{value:.0f}" if isinstance(value, float) and math.isfinite(value) and value.is_integer() else str(value)


def _telling(flats: Sequence[Flat]) -> list[str]:
    """Few keys that tell all apart: each the one that tells most apart beside those before it, `kind` and outer ones first."""
    keys = sorted(dict.fromkeys(key for flat in flats for key in flat), key=lambda key: (not key.endswith(".kind"), key.count(".")))

    def apart(chosen: Sequence[str]) -> int:
        return len({tuple(flat.get(key) for key in chosen) for flat in flats})

    chosen: list[str] = []
    while keys and (not chosen or apart(chosen) < len(flats)):
        best = max(keys, key=lambda key: apart([*chosen, key]))
        if chosen and apart([*chosen, best]) == apart(chosen):
            break
        chosen.append(best)
    return chosen


def _shortened(texts: Iterable[str]) -> dict[str, str]:
    """Long ones without the folders they have in common, and without their middle; as they are where that makes two the same."""
    long = [text for text in texts if len(text) > LONG]
    folder = os.path.commonprefix(long).rpartition("/")[0]
    ends = {text: f"…{text[len(folder) :]}" if len(folder) > 1 else text for text in long}
    cut = {text: f"{end[: LONG // 2]}…{end[-LONG // 2 :]}" if len(end) > LONG + 1 else end for text, end in ends.items()}
    if len(set(cut.values())) < len(cut):
        cut = {text: text for text in long}
    return {text: cut.get(text, text) for text in texts}


def _ends(keys: Iterable[str]) -> dict[str, str]:
    """The end of each key that no other one has; it does not begin with a number."""
    parts = {key: key.removeprefix("axis ").split(".") for key in keys}
    found = {}
    for key, of in parts.items():
        for length in range(1, len(of) + 1):
            end = of[-length:]
            if not end[0].isdigit() and all(other[-length:] != end for name, other in parts.items() if name != key):
                break
        found[key] = ".".join(end)
    return found
