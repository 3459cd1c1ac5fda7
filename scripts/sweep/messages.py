"""Messages of a sweep, and the error that ends one."""

import sys

USAGE, DIVERGED, TIME_OVER = 2, 4, 75


class SweepError(Exception):
    """Ends the sweep: a message that says what is wrong and what to do, and an exit code."""

    def __init__(self, message, code=USAGE):
        super().__init__(message)
        self.code = code


def say(text):
    print(text, file=sys.stderr, flush=True)


def warn(text):
    say(f"warning: {text}")


def counted(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
