"""The exceptions of offspan. Missing files and the like raise Python's own (``FileNotFoundError``, …)."""

from __future__ import annotations


class OffspanError(Exception):
    """Base of all errors of this package."""


class InputError(OffspanError, ValueError):
    """Data or a parameter that does not fit; says what was expected and what was got."""


class FormatError(OffspanError, ValueError):
    """A file or bytes that are damaged, of another kind or of a version that is not known."""


class NotFittedError(OffspanError, ValueError, AttributeError):
    """A method that has to be fitted first."""
