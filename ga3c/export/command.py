"""The commands `ga3c export`, `ga3c card` and `ga3c push`."""

import shutil
import tempfile
from pathlib import Path

from ga3c import zoo
from ga3c.export import bundle, carding, exporting, hub, scores
from ga3c.files import check_file
from ga3c.flags.arguments import CardArguments, ExportArguments, PushArguments
from ga3c.run import trust
from ga3c.run.folder import RunFolder
from ga3c.run.trained import check_request
from ga3c.view import consent


def export(args: ExportArguments) -> None:
    written = exporting.export(trusted(args.folder, args.trust), args.format, args.out, args.checkpoint)
    compared = written.compared
    print(
        f"{written.file}: {written.file.stat().st_size / 1e6:.2f} MB; equal to the network on {compared.observations} "
        f"observations, the largest difference is {compared.difference:.1g}"
    )
    if written.precision == "bf16":
        print("The run computed with bfloat16; the exported model computes with 32 bits, from the weights of 32 bits.")
    if (written.folder / "example.py").exists():
        print(f"Play it: python {written.folder / 'example.py'}")


def card(args: CardArguments) -> None:
    check_request(args.episodes, seed=0)
    folder = trusted(args.folder, args.trust)
    path = args.out or RunFolder.of(args.folder).path / "README.md"
    check_file(path, "--out", (".md",))
    carding.check_new(path)
    carding.write(folder, path, which=args.checkpoint, episodes=args.episodes, video=args.video)
    print(path)


def push(args: PushArguments) -> None:
    check_request(args.episodes, seed=0)
    api = hub.client(args.repository)
    folder = trusted(args.folder, args.trust)
    with tempfile.TemporaryDirectory() as temporary:
        bundled = Path(temporary) / "policy"
        bundle.write(folder, args.checkpoint, bundled)
        kept = RunFolder.of(folder).path / scores.NAME
        if kept.is_file():  # of another checkpoint it is not used
            shutil.copyfile(kept, bundled / scores.NAME)
        carding.write(
            bundled, bundled / "README.md", episodes=args.episodes, video=args.video,
            called=args.repository.rpartition("/")[2], record=RunFolder.of(folder).path,
        )  # fmt: skip
        print(hub.upload(api, args.repository, bundled, args.private))


def trusted(folder: Path, trusts: bool) -> Path:
    """The folder of a run or of a trained agent, whose environment may be imported."""
    folder = zoo.resolve(folder)
    run = RunFolder.of(folder)
    config = run.read_config()
    trust.settle(config.env_id, config.env.wrap, config.net.net, run.path, consent.given(folder, trusts))
    return folder
