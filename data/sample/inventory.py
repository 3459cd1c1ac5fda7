"""A small stock keeper: items come in, items go out, and the books must agree."""

from __future__ import annotations

import csv
import dataclasses
from collections import defaultdict
from pathlib import Path


class StockError(Exception):
    """Raised when the books would no longer agree."""


@dataclasses.dataclass(frozen=True)
class Movement:
    """One line of the journal: a positive count came in, a negative one went out."""

    item: str
    count: int
    note: str = ""

    def __post_init__(self) -> None:
        if not self.item:
            raise StockError("a movement needs an item")
        if self.count == 0:
            raise StockError(f"{self.item}: a movement of nothing is not a movement")


class Inventory:
    def __init__(self, movements: list[Movement] | None = None) -> None:
        self._journal: list[Movement] = []
        self._counts: dict[str, int] = defaultdict(int)
        for movement in movements or []:
            self.apply(movement)

    def apply(self, movement: Movement) -> int:
        """Adds a movement to the journal and returns how many of the item are left."""
        left = self._counts[movement.item] + movement.count
        if left < 0:
            raise StockError(f"{movement.item}: {-movement.count} wanted, {self._counts[movement.item]} in stock")
        self._counts[movement.item] = left
        self._journal.append(movement)
        return left

    def count(self, item: str) -> int:
        return self._counts.get(item, 0)

    def items(self) -> list[str]:
        return sorted(item for item, count in self._counts.items() if count > 0)

    def undo(self) -> Movement:
        """Takes back the last movement; the journal keeps no trace of it."""
        if not self._journal:
            raise StockError("there is nothing to undo")
        movement = self._journal.pop()
        self._counts[movement.item] -= movement.count
        return movement

    def write(self, path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="\t")
            writer.writerow(["item", "count", "note"])
            for movement in self._journal:
                writer.writerow([movement.item, movement.count, movement.note])

    @classmethod
    def read(cls, path: Path) -> Inventory:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file, delimiter="\t")
            return cls([Movement(row["item"], int(row["count"]), row["note"]) for row in rows])


def report(inventory: Inventory, width: int = 40) -> str:
    lines = []
    for item in inventory.items():
        count = str(inventory.count(item))
        dots = "." * max(width - len(item) - len(count), 3)
        lines.append(f"{item}{dots}{count}")
    return "\n".join(lines)


if __name__ == "__main__":
    stock = Inventory()
    for line in [("rope", 12), ("lamp oil", 30), ("flour", 4), ("lamp oil", -2)]:
        stock.apply(Movement(*line))
    print(report(stock))
    try:
        stock.apply(Movement("rope", -13))
    except StockError as error:
        print("refused:", error)
