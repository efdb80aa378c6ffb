// Search over all text of the run. The index is built at the first search; until it is whole, the page asks again.
import { useEffect, useRef, useState } from "preact/hooks";
import { linkTo, refine } from "../address";
import { askSearch, type Refused } from "../answers";
import { short, whole, words } from "../format";
import { Heading, useHere } from "../parts/common";
import type { SearchAnswer, SearchResult } from "../types";

const KINDS = ["trace", "site", "hint", "reply", "pair", "rollout", "finding"];
const [TYPING_MS, INDEXING_MS] = [200, 1000];

export function SearchPage() {
  const here = useHere();
  const { run, filters } = here;
  const [q, kind] = [filters.q ?? "", filters.kind ?? ""];
  const [answer, setAnswer] = useState<SearchAnswer | null>(null);
  const [problem, setProblem] = useState("");
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => box.current?.focus(), []);
  useEffect(() => {
    let isOver = false;
    let timer = 0;
    const search = async () => {
      try {
        const found = await askSearch(run, { q, limit: 200, ...(kind ? { kind } : {}) });
        if (isOver) return;
        setAnswer(found);
        setProblem("");
        if (found.indexing) timer = window.setTimeout(search, INDEXING_MS);
      } catch (failure) {
        if (!isOver) setProblem((failure as Refused).message);
      }
    };
    if (q.trim().length >= 3) timer = window.setTimeout(search, TYPING_MS);
    else setAnswer(null);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [run, q, kind]);
  return (
    <div class="column">
      <Heading title="Search" sub={'All text of the run. Words are joined by "and"; "quotes" keep a phrase whole.'} />
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <input
          id="search"
          ref={box}
          type="search"
          aria-label="search the run"
          placeholder="three characters or more"
          value={q}
          onInput={(event) => refine(here, { q: event.currentTarget.value })}
        />
        <label>
          <span>in</span>
          <select value={kind} onChange={(event) => refine(here, { kind: event.currentTarget.value })}>
            <option value="">everything</option>
            {KINDS.map((each) => (
              <option value={each}>{each === "reply" ? "replies" : `${each}s`}</option>
            ))}
          </select>
        </label>
        <span class="total number" role="status">
          {problem || (answer ? `${whole(answer.results.length)}${answer.more ? " and more" : ""}` : "")}
          {answer?.indexing ? `, indexed ${whole(answer.indexing.done)} of ${whole(answer.indexing.total)}` : ""}
        </span>
      </form>
      <ol class="results">
        {answer?.results.map((result) => (
          <li>
            <a href={place(run, result)}>
              {result.kind} <span class="mono">{short(result.id)}</span>
              {result.turn === null ? "" : `, turn ${result.turn}`}
            </a>
            <span class="note">{words(result.field)}</span>
            <p class="mono">
              {result.before}
              <mark>{result.match}</mark>
              {result.after}
            </p>
          </li>
        ))}
      </ol>
      {answer && !answer.results.length && !answer.indexing && <p class="faint">Nothing found{answer.more ? " in the part that was searched" : ""}.</p>}
    </div>
  );
}

const place = (run: string, result: SearchResult) =>
  result.kind === "trace" && result.turn !== null ? linkTo(run, "turn", `${result.id}:${result.turn}`) : linkTo(run, result.kind, result.id);
