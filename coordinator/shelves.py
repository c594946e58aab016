"""A map that never changes, and of which a copy with some rows changed costs as much as these rows:
what the coordinator knows of its devices is a value, however many there are.

Rows lie on shelves by their key's hash. A copy has a new one of each shelf that changed, and shares
all others; of ten thousand rows that is some forty instead of all. Whoever holds the map before
goes on reading it undisturbed, from any thread.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from itertools import chain
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

SHELVES = 256


class Shelves(Mapping[K, V], Generic[K, V]):
    """Rows in no order."""

    __slots__ = ("_count", "shelves")

    def __init__(self, rows: Mapping[K, V] | None = None) -> None:
        self.shelves: tuple[dict[K, V], ...] = ({},) * SHELVES
        self._count = 0
        if rows:
            filled = self.plus(rows)
            self.shelves, self._count = filled.shelves, filled._count

    def plus(self, rows: Mapping[K, V]) -> Shelves[K, V]:
        """With these, in the place of those of the same keys."""
        return self._changed(rows, ())

    def minus(self, keys: Iterable[K]) -> Shelves[K, V]:
        """Without these."""
        return self._changed({}, keys)

    def _changed(self, rows: Mapping[K, V], gone: Iterable[K]) -> Shelves[K, V]:
        fresh: dict[int, dict[K, V]] = {}
        count = self._count
        for key, row in rows.items():
            shelf = self._copied(key, fresh)
            count += key not in shelf
            shelf[key] = row
        for key in gone:
            if key in self:
                shelf = self._copied(key, fresh)
                count -= key in shelf
                shelf.pop(key, None)
        shelves = list(self.shelves)
        for place, shelf in fresh.items():
            shelves[place] = shelf
        changed: Shelves[K, V] = Shelves()
        changed.shelves, changed._count = tuple(shelves), count
        return changed

    def _copied(self, key: K, fresh: dict[int, dict[K, V]]) -> dict[K, V]:
        place = hash(key) % SHELVES
        if place not in fresh:
            fresh[place] = dict(self.shelves[place])
        return fresh[place]

    def __getitem__(self, key: K) -> V:
        return self.shelves[hash(key) % SHELVES][key]

    def __contains__(self, key: object) -> bool:
        return key in self.shelves[hash(key) % SHELVES]

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self.shelves)

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"Shelves({dict(self)!r})"

    # Read by whole shelves: by keys alone it would take three times as long.

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def items(self) -> ItemsView[K, V]:
        return _Items(self)


class _Values(ValuesView[Any]):
    _mapping: Shelves[Any, Any]

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(shelf.values() for shelf in self._mapping.shelves)


class _Items(ItemsView[Any, Any]):
    _mapping: Shelves[Any, Any]

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(shelf.items() for shelf in self._mapping.shelves)
