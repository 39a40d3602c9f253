#!/usr/bin/env python3
"""Writes the text of examples/data/sentences: sentences of a small grammar, as tokens, which nobody owns.

    scripts/example_sentences.py [DIR]      examples/data/sentences by default; the same bytes on every machine

DIR/train.bin and DIR/val.bin have little-endian uint16 numbers of words, which are the lines of DIR/words.txt. Verbs agree with
their subjects, also across a clause between them, and "a" stands before nouns in the singular only, so a model has something to
learn that the word before does not tell.
"""
import array
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples/data/sentences"
TOKENS = {"train": 12_288, "val": 2_048}
SINGULAR, PLURAL = 0, 1
NOUNS = ("dog dogs", "cat cats", "bird birds", "child children", "king kings", "river rivers", "tree trees", "ship ships")
VERBS = ("sees see", "finds find", "hears hear", "follows follow", "likes like", "knows know")
ALONE = ("sleeps sleep", "waits wait", "sings sing", "falls fall")
ADJECTIVES = ("small", "old", "red", "quiet", "strange", "happy")
OTHERS = ("a", "the", "some", "that", "and", "but", ",", ".")


def words():
    """By number."""
    forms = [form for group in (NOUNS, VERBS, ALONE) for both in group for form in both.split()]
    return sorted([*OTHERS, *ADJECTIVES, *forms])


class Writer:
    """Draws by Knuth's linear congruential generator, which is the same everywhere."""

    def __init__(self, seed):
        self.state = seed

    def below(self, count):
        self.state = (6364136223846793005 * self.state + 1442695040888963407) % 2**64
        return (self.state >> 33) % count

    def one_of(self, group):
        return group[self.below(len(group))]

    def noun_phrase(self, number):
        phrase = [self.one_of((("a", "the"), ("some", "the"))[number])]
        if self.below(3) == 0:
            phrase.append(self.one_of(ADJECTIVES))
        return [*phrase, self.one_of(NOUNS).split()[number]]

    def clause(self):
        number = self.below(2)
        subject = self.noun_phrase(number)
        if self.below(4) == 0:
            subject += ["that", self.one_of(VERBS).split()[number], *self.noun_phrase(self.below(2))]
        if self.below(3) == 0:
            return [*subject, self.one_of(ALONE).split()[number]]
        return [*subject, self.one_of(VERBS).split()[number], *self.noun_phrase(self.below(2))]

    def sentence(self):
        joined = [",", self.one_of(("and", "but")), *self.clause()] if self.below(5) == 0 else []
        return [*self.clause(), *joined, "."]


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {word: number for number, word in enumerate(words())}
    writer = Writer(1)
    for name, count in TOKENS.items():
        text = []
        while len(text) < count:
            text += writer.sentence()
        tokens = array.array("H", [numbers[word] for word in text[:count]])
        if sys.byteorder == "big":
            tokens.byteswap()
        (folder / f"{name}.bin").write_bytes(tokens.tobytes())
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
