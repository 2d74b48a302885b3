# SPDX-License-Identifier: MIT
"""The format of a lane's frames."""
from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple


@dataclass(frozen=True)
class Caps:
    """Caps, as text and parsed. Fields that a format doesn't have are None."""

    text: str = ""                     #: GStreamer's words; str(caps) is the same
    kind: str = "other"                #: "video", "audio", "tensors", or "other": bytes without a shape
    format: Optional[str] = None       #: GStreamer's name, "BGR" or "S16LE"
    width: Optional[int] = None        #: pixels
    height: Optional[int] = None       #: pixels
    interlace_mode: Optional[str] = None
    rate: Optional[int] = None         #: samples per second and channel
    channels: Optional[int] = None
    framerate: Optional[float] = None  #: frames per second; 0: variable or not known
    frame_size: int = 0                #: bytes; of audio: of one sample of all channels; 0: not known
    #: what frame[name] gives: {name: (dtype, shape)}, outermost dimension first; of audio the samples are -1
    arrays: Dict[str, Tuple[str, Tuple[int, ...]]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text
