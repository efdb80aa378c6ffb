"""A trained model or a dataset of pairs to the hub, with its card, in one commit; a dataset of sessions from there.

Every text that would leave is searched for secrets, home folders and e-mail addresses, also what teachers wrote after
the redaction of the sessions. One finding stops all of it. Weights cannot be searched: of a model whose sessions were
not redacted nothing is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from composer_replication.errors import RecomposeError, UsageError, quoted
from composer_replication.ingestion.inputs import SESSION_SUFFIXES
from composer_replication.redaction import find_secrets
from composer_replication.runs import Run

Kind = Literal["model", "dataset"]
WORD_LISTS = frozenset({"tokenizer.json", "vocab.json", "merges.txt", "added_tokens.json"})
"""Of the starting model; a vocabulary holds words of every kind."""
WEIGHTS = ".safetensors"
MAX_PLACES = 3


class Sent(NamedTuple):
    url: str
    files: tuple[str, ...]
    size_bytes: int


def push(run: Run, kind: Kind, repository: str, public: bool = False) -> Sent:
    """To `OWNER/NAME` of the hub, which is made if it is not there; private unless it is to be `public`."""
    from huggingface_hub import CommitOperationAdd, HfApi

    files = files_to_send(run, kind)
    refuse_secrets(run, files)
    api = HfApi()
    with _in_one_line(repository):
        made = api.create_repo(repository, repo_type=kind, private=not public, exist_ok=True)
        adding = [CommitOperationAdd(path_in_repo=file.name, path_or_fileobj=file) for file in files]
        api.create_commit(made.repo_id, adding, commit_message=f"Add {kind} of composer-replication", repo_type=kind)
    return Sent(str(made), tuple(file.name for file in files), sum(file.stat().st_size for file in files))


def fetch_dataset(repository: str, folder: Path) -> Path:
    """The session files and tables of a dataset of the hub, in a folder of their own. What is there is not fetched."""
    from huggingface_hub import snapshot_download

    with _in_one_line(repository):
        snapshot_download(
            repository, repo_type="dataset", local_dir=folder, allow_patterns=[f"*{end}" for end in SESSION_SUFFIXES]
        )
    return folder


@contextmanager
def _in_one_line(repository: str) -> Generator[None]:
    """What goes wrong with the hub, without the library's words: they may repeat a request."""
    from huggingface_hub.errors import HFValidationError, OfflineModeIsEnabled

    try:
        yield
    except HFValidationError as error:
        raise UsageError(f"{repository} is no name of a repository", "give OWNER/NAME") from error
    except OfflineModeIsEnabled as error:
        raise UsageError("the hub is switched off here (HF_HUB_OFFLINE)", "unset HF_HUB_OFFLINE") from error
    except Exception as error:  # of the library, and of the one below it that talks
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status is None:
            reason = f"the hub cannot be reached ({type(error).__name__})"
            raise RecomposeError(reason, "check the network, then again") from error
        raise RecomposeError(f"the hub refused {repository}: HTTP {status}", "hf auth login, then again") from error


def files_to_send(run: Run, kind: Kind) -> list[Path]:
    if kind == "model":
        run.stage("training").require()
        folder = run.path / "training" / "model"
    else:
        exports = run.path / "pairs" / "export"
        written = sorted(exports.iterdir()) if exports.exists() else []
        if len(written) != 1:
            found = f"{len(written)} exports of pairs" if written else "no export of pairs"
            again = "delete those that are not meant" if written else f"recompose pair {quoted(run.path)} --export trl"
            raise UsageError(f"{run.path} has {found}", again)
        [folder] = written
    return sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


def refuse_secrets(run: Run, files: Sequence[Path]) -> None:
    ingested = run.stage("ingestion").is_done
    if ingested and not run.config.ingestion.redact:
        raise UsageError(
            f"{run.path} was ingested without redaction, so nothing of it is sent",
            "recompose ingest PATH --run OTHER, without --allow-unredacted",
        )
    kinds: Counter[str] = Counter()
    places: list[str] = []
    for file in files:
        for place, text in _texts(file):
            found = find_secrets(text, personal=True)
            kinds.update(one.kind for one in found)
            places += [f"{file.name} {place}".rstrip()] if found else []
    if kinds:
        listed = ", ".join(f"{number} × {kind}" for kind, number in sorted(kinds.items()))
        more = f" and {len(places) - MAX_PLACES} more places" if len(places) > MAX_PLACES else ""
        raise RecomposeError(
            f"nothing was sent: {listed} in {', '.join(places[:MAX_PLACES])}{more}",
            "look at these places; take the pairs or sessions out that hold them",
        )


def _texts(file: Path) -> Iterator[tuple[str, str]]:
    """Every text of a file with the place where it stands."""
    if file.suffix == ".parquet":
        import pyarrow.parquet as parquet

        number = 0
        for batch in parquet.ParquetFile(file).iter_batches(batch_size=256):
            for row in batch.to_pylist():
                yield from ((f"row {number}, {column}", text) for column, text in _strings("", row))
                number += 1
    elif file.suffix != WEIGHTS and file.name not in WORD_LISTS:
        yield "", file.read_text(encoding="utf-8", errors="replace")


def _strings(column: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield column, value
    elif isinstance(value, dict):
        for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _strings(column or str(key), inner)
    elif isinstance(value, list):
        for inner in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _strings(column, inner)
