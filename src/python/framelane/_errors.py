# SPDX-License-Identifier: MIT
"""The exceptions: one for each code of the library, each also the built-in one that says the same."""


class Error(Exception):
    """Whatever Framelane can't do; the sentence says why, and what to do."""


class Timeout(Error, TimeoutError):
    """Nothing came, or no room became free, in time."""


class EndOfStream(Error):
    """The producer ended the stream; nothing follows."""


class Interrupted(Error):
    """interrupt() was called; holds until resume()."""


class PeerLost(Error, ConnectionError):
    """The other process died or closed without an end of stream."""


class ProtocolError(Error):
    """The peer broke the protocol; the text names the field."""


class InvalidArgument(Error, ValueError):
    """A value that can never work; the text says what would."""


class NotFound(Error, FileNotFoundError):
    """No such lane, directory or file."""


class InUse(Error, OSError):
    """Another live producer has the lane; the text names its process."""


class Permission(Error, PermissionError):
    """The system or the peer doesn't allow it."""


class TooLarge(Error, ValueError):
    """A frame beyond max_frame_size, or a path beyond its limit."""


class NoMemory(Error, MemoryError):
    """Memory, address space or a resource limit is exhausted."""


class Full(Error):
    """All loans are out, or the ring is full and the call must not wait."""


class Refused(Error, ConnectionRefusedError):
    """The producer rejected this consumer, or the server the request; the text is its sentence."""


class Unsupported(Error):
    """This kernel, build or peer lacks what is needed."""


class SystemFault(Error, OSError):
    """Any other error of the system; the text holds its words."""


class ReleasedError(Error, ValueError):
    """A frame, loan or view was used after it was given back."""


# framelane_code 1, 2, ... in order.
BY_CODE = (Timeout, EndOfStream, Interrupted, PeerLost, ProtocolError, InvalidArgument, NotFound, InUse, Permission,
           TooLarge, NoMemory, Full, Refused, Unsupported, SystemFault)

# Where applications find them: tracebacks and help() say framelane.Timeout.
for _error in (Error, ReleasedError, *BY_CODE):
    _error.__module__ = "framelane"
