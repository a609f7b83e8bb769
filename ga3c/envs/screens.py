"""The pixels of the Atari 2600: palette bytes to colours and greys, and area resizing to 84 x 84.

The same arithmetic runs in the agents (`Shrinker`) and on the device: grey by `grey_table`, maximum of the two last
screens, `area_weights(h, 84) @ grey @ area_weights(w, 84).T`, plus `ROUNDING`, floor.
"""

import functools

import numpy as np
from numpy.typing import NDArray

SIZE = 84
"""Side of the pictures that the network gets (DQN, 2015)."""

ROUNDING = 0.5 + 1 / 400
"""Added before the floor, to round to the nearest grey. An area mean of a 210 x 160 screen is a multiple of 1/200, so
exact halves are common. The additional 1/400 keeps float32 errors from deciding how a half is rounded."""

PAL_HEIGHT = 250
"""Screen height of games for European televisions (PAL), whose palette has other colours."""

# The emulator's colours for the even palette bytes: one row per hue, with eight brightnesses. The emulator has no call
# that returns them; a test compares them with its screens.
_NTSC = """
    000000 4a4a4a 6f6f6f 8e8e8e aaaaaa c0c0c0 d6d6d6 ececec
    484800 69690f 86861d a2a22a bbbb35 d2d240 e8e84a fcfc54
    7c2c00 904811 a26221 b47a30 c3903d d2a44a dfb755 ecc860
    901c00 a33915 b55328 c66c3a d5824a e39759 f0aa67 fcbc74
    940000 a71a1a b83232 c84848 d65c5c e46f6f f08080 fc9090
    840064 97197a a8308f b846a2 c659b3 d46cc3 e07cd2 ec8ce0
    500084 68199a 7d30ad 9246c0 a459d0 b56ce0 c57cee d48cfc
    140090 331aa3 4e32b5 6848c6 7f5cd5 956fe3 a980f0 bc90fc
    000094 181aa7 2d32b8 4248c8 545cd6 656fe4 7580f0 8490fc
    001c88 183b9d 2d57b0 4272c2 548ad2 65a0e1 75b5ef 84c8fc
    003064 185080 2d6d98 4288b0 54a0c5 65b7d9 75cceb 84e0fc
    004030 18624e 2d8169 429e82 54b899 65d1ae 75e7c2 84fcd4
    004400 1a661a 328432 48a048 5cba5c 6fd26f 80e880 90fc90
    143c00 355f18 527e2d 6e9c42 87b754 9ed065 b4e775 c8fc84
    303800 505916 6d762b 88923e a0ab4f b7c25f ccd86e e0ec7c
    482c00 694d14 866a26 a28638 bb9f47 d2b656 e8cc63 fce070
"""
_PAL = """
    000000 2b2b2b 525252 767676 979797 b6b6b6 d2d2d2 ececec
    000000 2b2b2b 525252 767676 979797 b6b6b6 d2d2d2 ececec
    805800 96711a ab8732 be9c48 cfaf5c dfc06f eed180 fce090
    445c00 5e791a 769332 8cac48 a0c25c b3d76f c4ea80 d4fc90
    703400 89511a a06b32 b68448 c99a5c dcaf6f ecc280 fcd490
    006414 1a8035 329852 48b06e 5cc587 6fd99e 80ebb4 90fcc8
    700014 891a35 a03252 b6486e c95c87 dc6f9e ec80b4 fc90c8
    005c5c 1a7676 328e8e 48a4a4 5cb8b8 6fcbcb 80dcdc 90ecec
    70005c 841a74 963289 a8489e b75cb0 c66fc1 d380d1 e090e0
    003c70 195a89 2f75a0 448eb6 57a5c9 68badc 79ceec 88e0fc
    580070 6e1a89 8332a0 9648b6 a75cc9 b76fdc c680ec d490fc
    002070 193f89 2f5aa0 4474b6 578bc9 68a1dc 79b5ec 88c8fc
    340080 4a1a96 5f32ab 7248be 835ccf 936fdf a280ee b090fc
    000088 1a1a9d 3232b0 4848c2 5c5cd2 6f6fe1 8080ef 9090fc
    000000 2b2b2b 525252 767676 979797 b6b6b6 d2d2d2 ececec
    000000 2b2b2b 525252 767676 979797 b6b6b6 d2d2d2 ececec
"""


@functools.cache
def _tables(height: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Greys [256] and colours [256, 3] by palette byte, as the emulator's own calls give them."""
    even = np.frombuffer(bytes.fromhex(_PAL if height == PAL_HEIGHT else _NTSC), np.uint8).reshape(128, 3)
    luma = np.floor(even @ np.array([0.2989, 0.5870, 0.1140]) + 0.5).astype(np.uint8)
    grey, colour = np.zeros(256, np.uint8), np.empty((256, 3), np.uint8)
    grey[0::2], colour[0::2] = luma, even
    # Odd bytes stand for pixels where a European television loses the colour. The emulator's colour for such a byte is
    # the grey of the byte below it; its grey is, by a quirk, the blue of the byte above. Both are reproduced here.
    colour[1::2] = luma[:, None]
    grey[1:255:2] = even[1:, 2]
    grey.flags.writeable = colour.flags.writeable = False
    return grey, colour


def grey_table(height: int) -> NDArray[np.uint8]:
    """Grey by palette byte [256], for a game whose screens have this height."""
    return _tables(height)[0]


def colour_table(height: int) -> NDArray[np.uint8]:
    """Red, green and blue by palette byte [256, 3], for a game whose screens have this height."""
    return _tables(height)[1]


GREY = grey_table(210)
"""The greys of all games but those of `PAL_HEIGHT`; `grey_table` has both."""


@functools.cache
def area_weights(source: int, target: int) -> NDArray[np.float32]:
    """The weight of each of `source` pixels in each of `target` wider ones: [target, source], rows sum to 1."""
    edges = np.arange(target + 1) * source / target
    pixels = np.arange(source)
    cover = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    weights: NDArray[np.float32] = (np.maximum(cover, 0.0) * target / source).astype(np.float32)
    weights.flags.writeable = False
    return weights


class Shrinker:
    """Area resizing to 84 x 84 with preallocated buffers."""

    def __init__(self, height: int, width: int) -> None:
        self._periodic = (height, width) == (210, 160)
        # Each product has fewer than 2**18 multiplications. From there on OpenBLAS starts threads, which would take
        # cores from other agents.
        if self._periodic:
            # 210 -> 84 repeats every 5 -> 2 rows with weights 2 2 1 | 1 2 2 fifths, 160 -> 84 every 40 -> 21 columns.
            self._columns = np.ascontiguousarray(area_weights(160, SIZE)[:21, :40].T) / np.float32(5)
            self._wide = np.empty((42, 5, 160), np.uint16)
            self._pairs = np.empty((42, 2, 160), np.uint16)
            self._rows = np.empty((42, 2, 160), np.float32)
            self._sums = np.empty((2, 168, 21), np.float32)
        else:
            self._left = np.ascontiguousarray(area_weights(height, SIZE)).reshape(14, 6, height)
            self._right = np.ascontiguousarray(area_weights(width, SIZE).T)
            self._grey = np.empty((height, width), np.float32)
            self._rows = np.empty((14, 6, width), np.float32)
            self._sums = np.empty((14, 6, SIZE), np.float32)
        self._picture = self._sums.reshape(SIZE, SIZE)

    def shrink(self, grey: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Resizes `grey` [h, w] into `out` [84, 84]."""
        if self._periodic:
            wide = self._wide
            wide[...] = grey.reshape(42, 5, 160)
            np.add(wide[:, 0::3], wide[:, 1::3], out=self._pairs)  # rows 0 + 1 | 3 + 4
            np.left_shift(self._pairs, 1, out=self._pairs)
            np.add(self._pairs, wide[:, 2:3], out=self._rows)
            np.matmul(self._rows.reshape(2, 168, 40), self._columns, out=self._sums)
        else:
            self._grey[...] = grey
            np.matmul(self._left, self._grey, out=self._rows)
            np.matmul(self._rows, self._right, out=self._sums)
        np.add(self._sums, ROUNDING, out=self._sums)
        out[...] = self._picture


def shrink(grey: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """Resizes `grey` [h, w] into `out` [84, 84] once. An agent keeps a `Shrinker`."""
    Shrinker(*grey.shape).shrink(grey, out)
