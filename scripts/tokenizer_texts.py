"""Texts for check_tokenizer_json.py: of packages, and generated ones on which tokenizers stumble."""
import gettext
import gzip
import pathlib
import random
import unicodedata


def decode(data):
    return data.decode("utf-8", errors="replace")


def python_sources(folder):
    return [decode(path.read_bytes()) for path in sorted(pathlib.Path(folder).rglob("*.py"))]


def texts_of_package(folder):
    """Man pages, and all translated messages of a catalogue as one text."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        if path.suffix == ".gz" and "man" in path.parts:
            yield decode(gzip.decompress(path.read_bytes()))
        elif path.suffix == ".mo":
            with open(path, "rb") as file:
                yield "\n".join(message for message in gettext.GNUTranslations(file)._catalog.values() if message)


def cut(texts, size):
    """The first `size` bytes of the texts."""
    kept = []
    for text in texts:
        if size <= 0:
            break
        data = text.encode()
        kept.append(data[:size].decode("utf-8", errors="ignore"))
        size -= len(data)
    return [text for text in kept if text]


def many_languages(folder, size):
    """As much of each package as of any other, where it has so much."""
    packages = sorted((list(texts_of_package(path)) for path in sorted(folder.iterdir())),
                      key=lambda texts: sum(len(text.encode()) for text in texts))
    kept = []
    for i, texts in enumerate(packages):
        part = cut(texts, size // (len(packages) - i))
        size -= sum(len(text.encode()) for text in part)
        kept += part
    return kept


BLOCKS = [
    (0x20, 0x7E), (0x20, 0x7E), (0x61, 0x7A), (0x30, 0x39), (0x00, 0x1F), (0x80, 0xFF), (0x100, 0x24F), (0x250, 0x2FF), (0x300, 0x36F),
    (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x58F), (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0xB80, 0xBFF), (0xE00, 0xE7F),
    (0xF00, 0xFFF), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x209F), (0x20D0, 0x20FF), (0x2100, 0x218F),
    (0x2200, 0x23FF), (0x2460, 0x24FF), (0x2600, 0x27BF), (0x3000, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3),
    (0xE000, 0xF8FF), (0xF900, 0xFAFF), (0xFE00, 0xFE0F), (0xFF00, 0xFFFF), (0x10400, 0x1044F), (0x1D400, 0x1D7FF), (0x1F1E6, 0x1F1FF),
    (0x1F300, 0x1F64F), (0x1F680, 0x1F6FF), (0x1F900, 0x1FAFF), (0x20000, 0x2A6DF), (0x30000, 0x323AF), (0xE0020, 0xE007F), (0xE000, 0x10FFFF),
]
CODES = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
BY_CATEGORY = {}
for _code in CODES:
    BY_CATEGORY.setdefault(unicodedata.category(chr(_code)), []).append(chr(_code))
SPACES = BY_CATEGORY["Zs"] + list("\t\n\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029\u200b\ufeff\u180e") + ["\r\n", "\n\n", "  ", "   ", " \n", " \t"]
ENDINGS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'RE", "'LL", "'\u017f", "\u2019s", "''", "'"]
EMOJI = BY_CATEGORY["So"]
PEOPLE = ["\U0001f468", "\U0001f469", "\U0001f9d1", "\U0001f466", "\U0001f467", "\u2764\ufe0f", "\U0001f692", "\u2695\ufe0f"]


class Generator:
    """Strings of everything on which tokenizers stumble; `words` are spellings of the tokenizer's own."""

    def __init__(self, seed, words=()):
        self.rng = random.Random(seed)
        self.words = list(words)
        self.kinds = [self.block, self.block, self.block, self.category, self.space, self.run, self.emoji, self.stack, self.direction,
                      self.number, self.ending] + [self.word] * (2 if self.words else 0)

    def block(self):
        low, high = self.rng.choice(BLOCKS)
        codes = [self.rng.randint(low, high) for _ in range(self.rng.randint(1, 8))]
        return "".join(chr(code) for code in codes if not 0xD800 <= code <= 0xDFFF)

    def category(self):
        names = sorted(BY_CATEGORY)
        return "".join(self.rng.choice(BY_CATEGORY[self.rng.choice(names)]) for _ in range(self.rng.randint(1, 4)))

    def space(self):
        return "".join(self.rng.choice(SPACES) for _ in range(self.rng.randint(1, 3)))

    def run(self):
        return self.rng.choice([" ", "\n", "a", "1", "=", "\u3042", "\U0001f600", "\u0301", chr(self.rng.choice(CODES))]) * self.rng.randint(2, 60)

    def emoji(self):
        kind = self.rng.randrange(5)
        if kind == 0:
            return "\u200d".join(self.rng.choice(PEOPLE) for _ in range(self.rng.randint(2, 4)))
        if kind == 1:
            return self.rng.choice("\U0001f44d\U0001f44b\U0001f9d1") + chr(0x1F3FB + self.rng.randrange(5))
        if kind == 2:
            return "".join(chr(0x1F1E6 + self.rng.randrange(26)) for _ in range(self.rng.randint(1, 3)))
        if kind == 3:
            return self.rng.choice("0123456789#*") + "\ufe0f\u20e3"
        return "".join(self.rng.choice(EMOJI) for _ in range(self.rng.randint(1, 5)))

    def stack(self):
        return self.rng.choice("aeiouAEIOU\u0439\u0915\u05d0\u0627\u304b\u1112") + "".join(
            self.rng.choice(BY_CATEGORY[self.rng.choice(["Mn", "Mn", "Mc"])]) for _ in range(self.rng.randint(1, 6)))

    def direction(self):
        return self.rng.choice("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u200e\u200f") + self.block() + self.rng.choice("\u202c\u2069")

    def number(self):
        digits = self.rng.choice(["0123456789", "\u0660\u0661\u0662\u0663", "\u0967\u0968\u0969", "\u00b2\u00b3\u00bd", "\u2160\u2167", "\uff11\uff12"])
        return "".join(self.rng.choice(digits) for _ in range(self.rng.randint(1, 12)))

    def ending(self):
        return self.rng.choice(["I", "we", "WE", "x", "\u00e9", "\u0431", "1", " ", ""]) + self.rng.choice(ENDINGS)

    def word(self):
        word = self.rng.choice(self.words)
        return word[self.rng.randrange(len(word)):] if self.rng.random() < 0.1 else word

    def text(self, longest=40):
        return "".join(self.rng.choice(self.kinds)() for _ in range(self.rng.randint(1, longest)))


def generated(size):
    generator, texts = Generator(seed=1), []
    while size > 0:
        texts.append("".join(generator.text() + generator.rng.choice([" ", "\n", ""]) for _ in range(50)))
        size -= len(texts[-1].encode())
    return texts


def read_texts(paths):
    texts = []
    for path in map(pathlib.Path, paths):
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        texts += [decode(file.read_bytes()) for file in files]
    return texts
