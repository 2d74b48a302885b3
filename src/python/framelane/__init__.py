# SPDX-License-Identifier: MIT
"""Frames of video, audio and tensors between processes, at memory speed.

    import framelane

    with framelane.Producer("feat", tensors={"mel": ("float32", (80, 100))}) as p:     # one process
        with p.loan() as f:
            numpy.asarray(f["mel"])[...] = x          # written where it will be read

    for f in framelane.Consumer("feat", timeout=5):                                     # any others
        print(f.seq, f.pts, numpy.asarray(f["mel"]).mean())                             # read where it was written

Shapes count from the outermost dimension, times of frames are ns, timeouts seconds. No numpy is needed, but for
Frame.numpy().
"""
from enum import IntFlag

from ._caps import Caps
from ._errors import (EndOfStream, Error, Full, InUse, Interrupted, InvalidArgument, NoMemory, NotFound, PeerLost,
                      Permission, ProtocolError, Refused, ReleasedError, SystemFault, Timeout, TooLarge, Unsupported)
from ._framelane import (Call, Client, Consumer, Frame, Loan, Producer, Request, Server, View, __version__)


class Flag(IntFlag):
    """Bits of Frame.flags and Loan.flags: GStreamer's buffer flags."""

    DISCONT = 1 << 0        # the frame doesn't follow its predecessor
    DELTA_UNIT = 1 << 1     # can't be decoded without earlier frames
    HEADER = 1 << 2         # stream header
    GAP = 1 << 3            # neutral data, may be ignored
    CORRUPTED = 1 << 4      # the payload is damaged
    MARKER = 1 << 5         # end of a group
    DROPPABLE = 1 << 6      # nothing depends on it
    RESYNC = 1 << 7         # time has jumped
    DECODE_ONLY = 1 << 8    # decode, don't show
    LIVE = 1 << 9           # captured live
    NON_DROPPABLE = 1 << 10


__all__ = ["Call", "Caps", "Client", "Consumer", "EndOfStream", "Error", "Flag", "Frame", "Full", "InUse",
           "Interrupted", "InvalidArgument", "Loan", "NoMemory", "NotFound", "PeerLost", "Permission", "Producer",
           "ProtocolError", "Refused", "ReleasedError", "Request", "Server", "SystemFault", "Timeout", "TooLarge",
           "Unsupported", "View", "__version__"]
