"""Damaged files: `eval` and `resume` must notice, say so, use nothing that is wrong, and keep what is whole."""

import os
import random
import shutil
from pathlib import Path

from ga3c.bench.faults import truth as truths
from ga3c.bench.faults.testbed import Case, says
from ga3c.bench.faults.zygote import Ended

_BLOCK = 512
_OTHERS = ("config.toml", "metrics.csv", "episodes.csv", "tuning.csv", "seal.json", "events.jsonl", "status.json")


def damage(case: Case) -> None:
    """Damages one file, or swaps two, and lets `eval` and `resume` meet it."""
    case.use_base()
    before = {path.name: path.read_bytes() for path in _files(case.folder)}
    victim = case.work / "victim"
    victim.write_text("not ours\n")
    hit = _do(case.fault.kind, case.folder, case.chance, victim)
    case.truth.rows = {name: [] for name in truths.TABLES}  # compared line by line below
    files = truths.checkpoints(case.folder)
    evaluated, damaged = case.eval(), {path.name: path.read_bytes() for path in _files(case.folder)}
    _check_told(case, evaluated, hit, files, "`ga3c eval`")
    ended = case.run("resume")
    _check_told(case, ended, hit, files, "`ga3c resume`")
    case.check(victim.read_text() == "not ours\n", "a file outside of the folder was changed")
    if ended.code == 0:
        _check_kept(case, ended, before, damaged)
        case.check_files("the resumed run")


def _files(folder: Path) -> list[Path]:
    """The files that may be damaged."""
    last = truths.checkpoints(folder)
    best = folder / "checkpoints" / "best.safetensors"
    others = [folder / name for name in _OTHERS]
    return [path for path in (*last, best, *others) if path.is_file()]


def _do(kind: str, folder: Path, chance: random.Random, victim: Path) -> list[str]:
    """Does the damage and returns the names of the files that it hit."""
    if kind == "lock":
        _damage_lock(folder / ".lock", chance, victim)
        return [".lock"]
    # The newest checkpoint and the settings count most, so they are hit most often.
    paths = _files(folder)
    newest = truths.checkpoints(folder)[-1]
    path = chance.choice([*paths, newest, newest, folder / "config.toml", folder / "config.toml"])
    if kind == "swap":
        other = chance.choice([one for one in paths if one != path])
        aside = folder / "aside"
        path.rename(aside)
        other.rename(path)
        aside.rename(other)
        return [path.name, other.name]
    if kind == "delete":
        path.unlink()
        return [path.name]
    path.write_bytes(_damaged(kind, path.read_bytes(), chance))
    return [path.name]


def _damaged(kind: str, data: bytes, chance: random.Random) -> bytes:
    if kind == "empty" or not data:
        return b""
    if kind == "truncate":
        return data[: chance.randrange(len(data))]
    if kind == "random":
        return chance.randbytes(chance.choice((1, 100, len(data))))
    changed = bytearray(data)
    if kind == "zero":
        start = chance.randrange(len(data)) // _BLOCK * _BLOCK
        changed[start : start + _BLOCK] = bytes(len(changed[start : start + _BLOCK]))
    else:
        for _ in range(chance.choice((1, 1, 1, 3, 20))):
            changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _damage_lock(lock: Path, chance: random.Random, victim: Path) -> None:
    manner = chance.choice(("link", "dangling", "folder", "random", "delete"))
    lock.unlink(missing_ok=True)
    if manner == "link":
        lock.symlink_to(victim)
    elif manner == "dangling":
        lock.symlink_to(victim.with_name("nothing"))
    elif manner == "folder":
        lock.mkdir()
    elif manner == "random":
        lock.write_bytes(chance.randbytes(100))


def _check_told(case: Case, ended: Ended, hit: list[str], files: list[Path], what: str) -> None:
    """A command that refuses names what is damaged. One that uses an older checkpoint than the newest says so."""
    refusable = ("config.toml", ".lock")
    checkpoints = [path.name for path in files]
    if ended.code:
        named = [*hit, *(["checkpoint"] if any("safetensors" in name for name in hit) else []), "config.toml"]
        case.check(any(says(ended, name) for name in named), f"{what} failed and does not name {' or '.join(hit)}")
        whole = [name for name in checkpoints if name not in hit]
        blamed = any(name in refusable or (name in checkpoints and not whole) for name in hit)
        case.check(blamed, f"{what} refuses the run because of {' and '.join(hit)}: {ended.output[-200:]!r}")
    elif ended.testimony.resumed and files:
        used = ended.testimony.resumed[-1]
        case.check(
            used == truths.steps_of(files[-1]) or says(ended, files[-1].name),
            f"{what} used step {used} instead of {files[-1].name} in silence",
        )


def _check_kept(case: Case, ended: Ended, before: dict[str, bytes], damaged: dict[str, bytes]) -> None:
    """Lines that the damage left whole are still there: up to the checkpoint in their own file and in order, later ones
    at least aside. Where the record up to the checkpoint is no longer whole, that is said."""
    limit = ended.testimony.resumed[-1] if ended.testimony.resumed else -1
    anywhere = {line for path in case.folder.rglob("*") if path.is_file() for line in path.read_bytes().splitlines()}
    for name in ("metrics.csv", "episodes.csv", "tuning.csv", "events.jsonl"):
        if name not in before:
            continue
        header, *original = before[name].splitlines()
        if name == "events.jsonl":
            original.insert(0, header)
        left, path = set(damaged.get(name, b"").splitlines()), case.folder / name
        now = path.read_bytes().splitlines() if path.is_file() else []
        whole = [line for line in original if line in left]
        lost = [line for line in whole if line not in anywhere]
        case.check(not lost, f"{len(lost)} whole lines of {name} are gone")
        kept = [line for line in now if line in set(whole)]
        case.check(kept == [line for line in whole if line in set(now)], f"{name} has lines twice or out of order")
        if name in truths.TABLES:
            counted = [line for line in original if _steps(header, line) <= limit]
            missing = sum(line not in set(now) for line in counted)
            case.check(not missing or says(ended, name), f"{name} lacks {missing} rows, and nothing was said")
    rows = truths.read_rows(case.folder / "metrics.csv")[-len(ended.testimony.rows) :]
    if text := truths.differs(rows, ended.testimony.rows, "metrics.csv"):
        case.broken.append(f"the resumed run: {text}")


def _steps(header: bytes, line: bytes) -> float:
    """The steps of a row; more than any where it has none."""
    names, cells = header.split(b","), line.split(b",")
    try:
        return float(cells[names.index(b"steps")])
    except (ValueError, IndexError):
        return float("inf")


def clean(folder: Path) -> None:
    """Removes what a case has left."""
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
