"""The Hugging Face Hub, through its own client: the client knows where the Hub is and who is logged in."""

import importlib
import re
from pathlib import Path
from typing import Any

from ga3c.errors import RunFailed, UserError


def client(repository: str) -> Any:
    """The Hub's client, where a person is logged in. A UserError says what is missing."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise UserError(f"REPO is {repository}, but must be OWNER/NAME.")
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise UserError(
            'Uploading needs the package huggingface_hub; install it with pip install "ga3c[hub]".'
        ) from error
    api = hub.HfApi()
    try:
        api.whoami()
    except Exception as error:  # the client's own errors, and those of its connection
        raise UserError(
            f"Uploading needs a login, and there is none ({_reason(error)}); use `hf auth login`."
        ) from error
    return api


def upload(api: Any, repository: str, folder: Path, private: bool) -> str:
    """Uploads a folder and returns where it is. A new repository is made where there is none."""
    try:
        place = api.create_repo(repo_id=repository, private=private, exist_ok=True)
        api.upload_folder(repo_id=repository, folder_path=str(folder), commit_message="Upload a policy and its card")
    except Exception as error:
        raise RunFailed(f"The upload to {repository} failed: {_reason(error)}.") from error
    return str(place)


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}".rstrip(".") if lines else type(error).__name__
