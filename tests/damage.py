"""Damage to files, for property-based tests: what disks, crashes and editors do to bytes."""

from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st


@dataclass(frozen=True)
class Damage:
    """One change of a file's bytes. Places are shares of the file's length, so that one damage suits any file."""

    kind: str
    place: float
    length: int
    value: bytes

    def apply(self, content: bytes) -> bytes:
        begin = round(self.place * len(content))
        end = begin + self.length
        match self.kind:
            case "flip" if content:
                begin = min(begin, len(content) - 1)
                return content[:begin] + bytes([content[begin] ^ (self.value[0] or 1)]) + content[begin + 1 :]
            case "truncate":
                return content[:begin]
            case "insert":
                return content[:begin] + self.value + content[begin:]
            case "delete":
                return content[:begin] + content[end:]
            case "overwrite":
                return content[:begin] + self.value + content[begin + len(self.value) :]
            case "zero":
                return content[:begin] + bytes(len(content[begin:end])) + content[end:]
            case "repeat":
                return content[:end] + content[begin:]
        return content

    def apply_to(self, path: Path) -> None:
        path.write_bytes(self.apply(path.read_bytes()))


KINDS = ("flip", "truncate", "insert", "delete", "overwrite", "zero", "repeat")
# Pieces of the formats themselves make damage that is still well formed.
PIECES = (
    b"0",
    b"9",
    b"-",
    b"e9",
    b"\n",
    b"#",
    b'"',
    b"'",
    b"[",
    b"]",
    b"=",
    b"nan",
    b"inf",
    b"true",
    b"{",
    b"}",
    b",",
    b"\xff",
)

damages = st.builds(
    Damage,
    kind=st.sampled_from(KINDS),
    place=st.floats(0.0, 1.0),
    length=st.integers(1, 200),
    value=st.one_of(st.sampled_from(PIECES), st.binary(min_size=1, max_size=8)),
)
"""Any one damage."""
