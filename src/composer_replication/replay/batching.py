"""Questions asked through batch endpoints, at half the price, within a day.

Each question is reserved in the ledger like any other call. The id of a batch is in `RUN/batches` before it is waited
for, so that a run that was killed looks for the same batch again. A kill while it is handed over leaves its questions
in doubt, as it does with calls in flight.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from composer_replication.errors import BudgetError, PartialError, RecomposeError, UsageError
from composer_replication.llm.addresses import host_of, require_allowed
from composer_replication.llm.batches import BATCHES, BatchItem, BatchRefused, BatchResult, BatchService, NeverBegun
from composer_replication.llm.client import Endpoint, ending_of, worst_of
from composer_replication.llm.http_answers import judge
from composer_replication.llm.ledger import Ending, Ledger
from composer_replication.llm.outgoing import encoded, secret_in
from composer_replication.llm.transport import Ambiguous, HttpTransport, NotSent, Response, Transport
from composer_replication.progress import Progress
from composer_replication.runs import write_atomically

from .requests import TeacherQuestion

FOLDER = "batches"
MAX_ITEMS = 5_000
MAX_BYTES = 90 << 20
"""Of one batch; both providers allow more than twice that, but it has to fit in memory."""
MAX_RESULT_BYTES = 512 << 20
TIMEOUT_S = 600.0
LOOKS_THAT_MAY_FAIL = 10


@dataclass(frozen=True)
class PendingBatch:
    """`attempts`: the ledger's number of each question, by its key."""

    file: Path
    teacher: str
    batch: str
    attempts: Mapping[str, int]

    def store(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        fields = {"teacher": self.teacher, "batch": self.batch, "attempts": self.attempts}
        write_atomically(self.file, json.dumps(fields))


def pending_batches(ledger: Ledger) -> list[PendingBatch]:
    """Batches of the ledger's run that were handed over and not read yet."""
    found: list[PendingBatch] = []
    for file in sorted((ledger.path.parent / FOLDER).glob("*.json")):
        fields: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        found.append(PendingBatch(file, fields["teacher"], fields["batch"], fields["attempts"]))
    return found


def refuse_pending(ledger: Ledger) -> None:
    """A question that waits in a batch is not asked in another way: it would be paid twice."""
    if waiting := pending_batches(ledger):
        raise UsageError(
            f"{sum(len(one.attempts) for one in waiting)} questions wait in {len(waiting)} batches",
            f"run the same command with --batch, or delete {ledger.path.parent / FOLDER} to give them up",
        )


def ask_in_batches(
    asked: Mapping[Endpoint, Sequence[TeacherQuestion]], ledger: Ledger, progress: Progress, poll_s: float
) -> None:
    """Every question that has no answer yet goes into a batch; all are waited for. Raises where some are to be asked
    again, because their batch came too late or was not begun. A request that is refused itself is given up."""
    with _only_process(ledger.path.parent / FOLDER):
        asyncio.run(_Asking(asked, ledger, progress, poll_s).run())


class _Asking:
    def __init__(
        self, asked: Mapping[Endpoint, Sequence[TeacherQuestion]], ledger: Ledger, progress: Progress, poll_s: float
    ) -> None:
        self._asked = asked
        self._ledger = ledger
        self._progress = progress
        self._poll_s = poll_s
        self._tried: set[str] = set()
        self._left_over: dict[str, str] = {}
        """What was said of questions that a further batch may answer."""
        self._ended = 0
        self._total = sum(map(len, asked.values()))

    async def run(self) -> None:
        hosts = {host_of(endpoint.base_url) for endpoint in self._asked if endpoint.private_network}
        async with HttpTransport(TIMEOUT_S, hosts, MAX_RESULT_BYTES) as transport:
            await self._wait(pending_batches(self._ledger), transport)
            while left := self._left():
                begun = [one for endpoint, own in left async for one in self._begin(endpoint, own, transport)]
                if not begun and self._left():
                    raise self._ledger.totals().no_room("question")
                await self._wait(begun, transport)
        unanswered = self._left_over.keys() - self._ledger.settled_keys()
        if unanswered:
            why = _mostly(Counter(self._left_over[key] for key in unanswered))
            raise PartialError(
                f"{len(unanswered)} questions got no answer in a batch ({why}); all answers are saved",
                "run the same command again, or without --batch",
            )

    def _left(self) -> list[tuple[Endpoint, list[TeacherQuestion]]]:
        known = self._ledger.settled_keys() | self._tried
        found = [(endpoint, [one for one in own if one.key not in known]) for endpoint, own in self._asked.items()]
        return [(endpoint, own) for endpoint, own in found if own]

    async def _begin(
        self, endpoint: Endpoint, own: Sequence[TeacherQuestion], transport: Transport
    ) -> AsyncIterator[PendingBatch]:
        """Batches of as many questions as the cap has room for."""
        require_allowed(endpoint.base_url, endpoint.private_network)
        for chunk in _chunks(own):
            reserved = await asyncio.gather(*(self._reserve(endpoint, one, body) for one, body in chunk))
            held = [(one, made) for (one, _), made in zip(chunk, reserved, strict=True) if made]
            if held:
                bodies = {one.key: body for one, body in chunk}
                attempts = {one.key: made for one, made in held}
                items = [BatchItem(key, bodies[key]) for key in attempts]
                yield await self._hand_over(endpoint, items, attempts, transport)
            if any(one.key not in self._tried for one, _ in chunk):
                return

    async def _reserve(self, endpoint: Endpoint, question: TeacherQuestion, body: bytes) -> int | None:
        """The number of the attempt. Whoever gets no room is not tried yet."""
        worst = worst_of(endpoint.prices, question.call(), body)
        reservation = await self._ledger.areserve(question.key, endpoint.name, worst, question.prompt_bytes)
        if reservation.status != "over_cap":
            self._tried.add(question.key)
        if reservation.status != "reserved":
            return None
        if kind := secret_in(orjson.loads(body)):
            reason = f"not sent: the request holds a secret ({kind})"
            await self._ledger.afinish(reservation.attempt, Ending("refused", reason=reason))
            return None
        return reservation.attempt

    async def _hand_over(
        self,
        endpoint: Endpoint,
        items: Sequence[BatchItem],
        attempts: Mapping[str, int],
        transport: Transport,
    ) -> PendingBatch:
        try:
            batch = await BATCHES[endpoint.wire.dialect](transport, endpoint).begin(items)
        except (NotSent, Ambiguous, BatchRefused) as error:
            in_doubt = isinstance(error, Ambiguous) or (isinstance(error, BatchRefused) and error.charged)
            ending = Ending("in_doubt" if in_doubt else "refused", exact=not in_doubt, reason=str(error))
            await self._end(attempts, dict.fromkeys(attempts, ending))
            raise _told(endpoint, error) from error
        file = self._ledger.path.parent / FOLDER / f"{time.time_ns()}.json"
        pending = PendingBatch(file, endpoint.name, batch, attempts)
        pending.store()
        self._progress.note(f"{len(items)} questions to {endpoint.name} are in the batch {batch}")
        return pending

    async def _wait(self, batches: Sequence[PendingBatch], transport: Transport) -> None:
        endpoints = {endpoint.name: endpoint for endpoint in self._asked}
        waiting = [one for one in batches if one.teacher in endpoints]
        for other in {one.teacher for one in batches} - set(endpoints):
            self._progress.note(f"a batch of {other} is left waiting, because {other} is not asked now")
        failures = 0
        while waiting:
            for one in list(waiting):
                endpoint = endpoints[one.teacher]
                service = BATCHES[endpoint.wire.dialect](transport, endpoint)
                try:
                    results = await self._results(service, one)
                except (NotSent, Ambiguous, BatchRefused) as error:
                    failures += 1
                    lasting = isinstance(error, BatchRefused) and not error.may_pass
                    if lasting or failures > LOOKS_THAT_MAY_FAIL:
                        raise PartialError(
                            f"the batch {one.batch} of {one.teacher} cannot be read: {error}",
                            f"run the same command later, or delete {one.file} to give it up",
                        ) from error
                    continue
                failures = 0
                if results is not None:
                    await self._settle(one, endpoint, results)
                    waiting.remove(one)
            self._progress.step(self._ended, self._total, f"{len(waiting)} batches")
            if waiting:
                await asyncio.sleep(self._poll_s)

    async def _results(self, service: BatchService, pending: PendingBatch) -> list[BatchResult] | None:
        try:
            status = await service.ended(pending.batch)
            return None if status is None else await service.results(pending.batch, status)
        except NeverBegun as error:
            return [BatchResult(key, None, str(error), may_pass=True) for key in pending.attempts]

    async def _settle(self, pending: PendingBatch, endpoint: Endpoint, results: Sequence[BatchResult]) -> None:
        """The file goes last: a kill before that reads the same results again, and what is settled stays so."""
        found = {result.custom_id: result for result in results}
        query = "SELECT worst_micros, prompt_bytes FROM attempts WHERE id = ?"
        endings: dict[str, Ending] = {}
        for key, number in pending.attempts.items():
            result = found.get(key)
            endings[key] = _ending(result, endpoint, *self._ledger.rows(query, number)[0])
            if result is None or result.may_pass:
                self._left_over[key] = endings[key].words or ""
        await self._end(pending.attempts, endings)
        pending.file.unlink()
        self._ended += len(endings)
        if words := Counter(one.words or one.reason or "" for one in endings.values() if one.state != "settled"):
            self._progress.note(f"{words.total()} questions to {endpoint.name} got no answer ({_mostly(words)})")

    async def _end(self, attempts: Mapping[str, int], endings: Mapping[str, Ending]) -> None:
        await asyncio.gather(*(self._ledger.afinish(number, endings[key]) for key, number in attempts.items()))


def _told(endpoint: Endpoint, error: Exception) -> RecomposeError:
    if isinstance(error, BatchRefused) and error.no_credit:
        what = f"{endpoint.name}'s provider wants credit ({error}); all answers are saved"
        return BudgetError(what, "add credit and run again")
    what = f"{endpoint.name}'s provider took no batch: {error}"
    if isinstance(error, BatchRefused) and not error.may_pass:
        return RecomposeError(what, "mend what it says, then run the same command again")
    return PartialError(what, "run the same command later")


def _mostly(words: Counter[str]) -> str:
    worst, count = words.most_common(1)[0]
    return f"{worst or 'no reason given'} × {count}"


def _ending(result: BatchResult | None, endpoint: Endpoint, worst: int, prompt_bytes: int) -> Ending:
    if result is None:
        return Ending("in_doubt", reason="missing from its batch")
    if result.answer is None:
        return Ending("refused", reason="in a batch", words=result.words or None)
    response = Response(200, result.answer)
    return ending_of(response, judge(response), endpoint, endpoint.prices, worst, prompt_bytes)


def _chunks(own: Sequence[TeacherQuestion]) -> Iterator[list[tuple[TeacherQuestion, bytes]]]:
    chunk: list[tuple[TeacherQuestion, bytes]] = []
    size = 0
    for question in own:
        body = encoded(question.sent())
        if chunk and (len(chunk) >= MAX_ITEMS or size + len(body) > MAX_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append((question, body))
        size += len(body)
    if chunk:
        yield chunk


@contextmanager
def _only_process(folder: Path) -> Generator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"another process waits for the batches in {folder}", "let it end") from error
        yield
