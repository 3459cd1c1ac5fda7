"""The points of a sweep: combinations of settings, by a grid, a file and random draws. Pure but for reading the file."""

import dataclasses
import hashlib
import itertools
import math
import re
import shlex

from sweep.messages import SweepError

MOST_LETTERS = 200  # of a name, which is that of a folder
DIGITS = 6          # of a drawn value, so that a name shows all of it


@dataclasses.dataclass(frozen=True)
class Point:
    name: str       # of its folder
    settings: tuple = ()  # "KEY=VALUE" as --set of lmtrain takes it


@dataclasses.dataclass(frozen=True)
class Range:
    """The interval in which one key was varied; an empty one, low = high, where its values are words, which have no order."""

    key: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False     # drawn from evenly in the logarithm
    listed: bool = False  # values of a grid; low and high are among them


@dataclasses.dataclass(frozen=True)
class Draw:
    """One key whose values are drawn."""

    range: Range

    def value(self, seed, index):
        """The value of a point: a function of seed, key and index alone, so that more points or keys change no other one."""
        digest = hashlib.sha256(f"{seed}/{self.range.key}/{index}".encode()).digest()
        part = int.from_bytes(digest[:8], "big") / 2.0**64
        low, high = self.range.low, self.range.high
        drawn = low * (high / low) ** part if self.range.log else low + part * (high - low)
        return f"{drawn:.{DIGITS}g}"


def split_values(text):
    """The values of A,B,...: commas within brackets, braces and quotes divide nothing."""
    values, depth, quoted, begin = [], 0, False, 0
    for at, letter in enumerate(text):
        if letter == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif not quoted and letter in "[{":
            depth += 1
        elif not quoted and letter in "]}":
            depth -= 1
        elif letter == "," and not quoted and depth == 0:
            values.append(text[begin:at])
            begin = at + 1
    return values + [text[begin:]]


def folder_name(key, value):
    """KEY's last part and the value; letters that no folder should have become "-"."""
    plain = re.sub(r"[^A-Za-z0-9._=+-]+", "-", value).strip("-")
    return f"{key.rsplit('.', 1)[-1]}={plain}"


def number(text):
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def read_vary(text):
    """(Range, values) of --vary KEY=A,B,..."""
    key, equals, values = text.partition("=")
    listed = split_values(values)
    if not equals or not key or "" in listed:
        raise SweepError(f"--vary {text}: give KEY=VALUE,VALUE,...")
    numbers = list(map(number, listed))
    return (Range(key) if None in numbers else Range(key, min(numbers), max(numbers), listed=True)), listed


def read_draw(text):
    """Draw of --draw KEY=log:LOW:HIGH or KEY=uniform:LOW:HIGH."""
    key, _, drawn = text.partition("=")
    kind, _, bounds = drawn.partition(":")
    limits = [number(bound) for bound in bounds.split(":")]
    if not key or kind not in ("log", "uniform") or len(limits) != 2 or None in limits:
        raise SweepError(f"--draw {text}: give KEY=log:LOW:HIGH or KEY=uniform:LOW:HIGH, such as optimizer.lr=log:1e-4:1e-2")
    low, high = limits
    if low >= high:
        raise SweepError(f"--draw {text}: {low:g} is not below {high:g}")
    if kind == "log" and low <= 0:
        raise SweepError(f"--draw {text}: a logarithmic range begins above 0, not at {low:g}")
    return Draw(Range(key, low=low, high=high, log=kind == "log"))


def settings_of(words, where):
    """The KEY=VALUE of --set KEY=VALUE and --set=KEY=VALUE; the sweep gives all other options of `lmtrain train` itself."""
    settings, words = [], list(words)
    while words:
        word = words.pop(0)
        option, equals, setting = word.partition("=")
        if option != "--set" or (not equals and not words):
            raise SweepError(f"{where}: {word} is not --set KEY=VALUE, which is all that a run of a sweep takes")
        settings.append(setting if equals else words.pop(0))
        if not settings[-1].partition("=")[0] or "=" not in settings[-1]:
            raise SweepError(f"{where}: --set {settings[-1]}: give KEY=VALUE")
    return tuple(settings)


def read_points(path):
    """The points of a file, one a line."""
    points = []
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SweepError(f"--points {path} cannot be read: {error}") from None
    for i, line in enumerate(lines):
        where = f"{path}:{i + 1}"
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            name, *words = shlex.split(line)
        except ValueError as error:
            raise SweepError(f"{where}: {error}") from None
        if not re.fullmatch(r"[A-Za-z0-9._=+-]+", name) or name in (".", ".."):
            raise SweepError(f"{where}: '{name}' cannot name a folder; use letters, digits and . _ = + -")
        points.append(Point(name, settings_of(words, where)))
    if not points:
        raise SweepError(f"--points {path} holds no point")
    return points


def draw_points(draws, count, seed):
    """`count` different points, the same ones for the same seed; a larger count only adds to them."""
    points = {}
    for index in range(100 * count):
        pairs = [(draw.range.key, draw.value(seed, index)) for draw in draws]
        name = "_".join(folder_name(key, value) for key, value in pairs)
        points.setdefault(name, Point(name, tuple(f"{key}={value}" for key, value in pairs)))
        if len(points) == count:
            return list(points.values())
    raise SweepError(f"--draws {count}: the ranges hold no {count} values that differ in {DIGITS} digits")


def combine(*axes):
    """Each point of each axis with each of the others; the last axis runs fastest."""
    combined = []
    for parts in itertools.product(*axes):
        name = "_".join(part.name for part in parts)
        combined.append(Point(name, tuple(setting for part in parts for setting in part.settings)))
    return combined


def make_points(points_file, vary, draws, num_draws, draw_seed):
    """(points, Range of each --vary and --draw). Without any option the config itself is the one point, "run"."""
    axes, ranges = [], []
    if points_file:
        axes.append(read_points(points_file))
    for text in vary:
        varied, values = read_vary(text)
        ranges.append(varied)
        axes.append([Point(folder_name(varied.key, value), (f"{varied.key}={value}",)) for value in values])
    if draws:
        drawn = [read_draw(text) for text in draws]
        ranges += [draw.range for draw in drawn]
        axes.append(draw_points(drawn, num_draws, draw_seed))
    keys = [one.key for one in ranges]
    for key in keys:
        if keys.count(key) > 1:
            raise SweepError(f"{key} is given more than once by --vary and --draw")
    points = combine(*axes) if axes else [Point("run")]
    names = set()
    for point in points:
        if point.name in names:
            raise SweepError(f"two points are named {point.name}; name them in a file, with --points")
        if len(point.name) > MOST_LETTERS:
            raise SweepError(f"{point.name} is too long a name for a folder; name the points in a file, with --points")
        names.add(point.name)
    return points, ranges


def value_of(point, key):
    """The number that a point has for a key; None: it sets none. The last setting of a key holds."""
    values = [setting.partition("=")[2] for setting in point.settings if setting.partition("=")[0] == key]
    return number(values[-1]) if values else None


def edge_warning(tried, point):
    """Why the best point does not show where the best value of a key lies: it is at the edge of what was tried. Else None."""
    value = value_of(point, tried.key)
    if value is None or tried.low == tried.high:
        return None
    if tried.listed:
        at_low, at_high, place = value == tried.low, value == tried.high, "the {} of the values tried"
    else:
        part = math.log(value / tried.low) / math.log(tried.high / tried.low) if tried.log else (value - tried.low) / (tried.high - tried.low)
        at_low, at_high, place = part < 0.1, part > 0.9, "in the {} tenth of the range drawn from"
    if not (at_low or at_high):
        return None
    return (f"the best point, {point.name}, has {tried.key} {value:g}, {place.format('lowest' if at_low else 'highest')} "
            f"({tried.low:g} to {tried.high:g}); {'lower' if at_low else 'higher'} values may be better still")


def config_overrides(settings):
    """KEY=VALUE of each as options of lmtrain."""
    return [word for setting in settings for word in ("--set", setting)]
