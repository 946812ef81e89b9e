"""The error of this package: one line that says what was given, what is allowed and where."""

try:
    from ringsched import Error
except ImportError:  # the compiled part of ringsched is not installed

    class Error(ValueError):
        """A bad input, plans that differ, or a run that failed."""


__all__ = ["Error"]
