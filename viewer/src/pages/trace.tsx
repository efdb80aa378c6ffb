// A transcript of any length: only what is in view is drawn, and turns come in windows of fifty.
import { useEffect, useRef, useState } from "preact/hooks";
import { link } from "../address";
import { ask, askSearch, useAnswer } from "../answers";
import { short, whole, words } from "../format";
import { useKeys } from "../keys";
import { Heading, Link, useHere, Waiting } from "../parts/common";
import { MessageView, Still } from "../parts/message";
import { Minimap } from "../parts/minimap";
import { Bytes } from "../parts/source";
import { type Scroller, Virtual } from "../parts/virtual";
import type { Mark, Message, SearchResult, TraceAnswer, Turn } from "../types";

const WINDOW = 50;
const MOST_WINDOWS = 30;
/** A window that only flies past is not asked for. */
const SETTLE_MS = 60;
/** While the index is built, a search that found nothing yet is asked again. */
const INDEXING_MS = 1000;

export function TracePage() {
  const { run, id } = useHere();
  const asked = useAnswer<TraceAnswer>(run, "trace", { id, from: 0, to: WINDOW });
  return <Waiting asked={asked}>{(answer) => <Transcript key={id} head={answer} />}</Waiting>;
}

function Transcript({ head }: { head: TraceAnswer }) {
  const here = useHere();
  const { run, id } = here;
  const wanted = Math.max(0, Math.min(head.n_turns - 1, Number(here.filters.turn) || 0));
  const [current, setCurrent] = useState(wanted);
  const [view, setView] = useState<[number, number]>([0, 0]);
  const [isRaw, setRaw] = useState(false);
  const scroller = useRef<Scroller>(null);
  const turns = useTurns(run, id, head);
  const find = useFind(run, id);
  const isOurs = useRef(false);

  const jump = (turn: number) => {
    const to = Math.max(0, Math.min(head.n_turns - 1, turn));
    isOurs.current = true;
    setCurrent(to);
    scroller.current?.to(to);
    history.replaceState(null, "", link(run, "trace", id, { ...here.filters, turn: String(to) }));
  };
  useEffect(() => {
    if (here.filters.turn !== undefined) jump(wanted);
  }, [here.filters.turn]);

  const next = (marks: Mark[], by: 1 | -1) => {
    const places = [...new Set(marks.flatMap(({ turn }) => (turn === null ? [] : [turn])))].sort((a, b) => by * (a - b));
    const found = places.find((turn) => by * (turn - current) > 0);
    if (found !== undefined) jump(found);
  };
  const of = (kind: string) => head.marks.filter((mark) => mark.kind === kind);
  const box = useRef<HTMLInputElement>(null);
  useKeys([
    { key: "j", does: "next turn", act: () => jump(current + 1) },
    { key: "k", does: "previous turn", act: () => jump(current - 1) },
    { key: "e", does: "next error", act: () => next(of("site"), 1) },
    { key: "E", does: "previous error", act: () => next(of("site"), -1) },
    { key: "p", does: "next pair", act: () => next(of("pair"), 1) },
    { key: "f", does: "next finding", act: () => next(of("finding"), 1) },
    { key: "/", does: "search in this trace", act: () => box.current?.focus() },
    { key: "n", does: "next result", act: () => find.move(1, jump) },
    { key: "N", does: "previous result", act: () => find.move(-1, jump) },
    { key: "x", does: "unfold or fold this turn", act: () => unfold(current) },
    { key: "r", does: "raw JSON or text", act: () => setRaw(!isRaw) },
  ]);
  const seen = (first: number, last: number, top: number) => {
    turns.see(first, last);
    setView((now) => (now[0] === first && now[1] === last ? now : [first, last]));
    if (isOurs.current) isOurs.current = false;
    else if (top > 0 || current !== 0) setCurrent((now) => (now >= first && now <= last && now !== first ? now : first));
  };
  return (
    <div class="fill trace">
      <Heading
        title={
          <>
            Trace <span class="mono">{short(id)}</span>
          </>
        }
        sub={<About of={head} />}
      >
        <form
          role="search"
          class="find"
          onSubmit={(event) => {
            event.preventDefault();
            find.search(box.current?.value ?? "", jump);
            box.current?.blur();
          }}
        >
          <input ref={box} type="search" placeholder="search this trace" aria-label="search in this trace" />
          <span class="number faint" role="status">{find.status}</span>
        </form>
        <span class="number">
          turn {whole(current)}
        </span>
      </Heading>
      <div class="transcript">
        <Virtual
          count={head.n_turns}
          guess={160}
          label="transcript"
          scroller={scroller}
          onView={seen}
          extra={2}
          render={(place) => {
            const turn = turns.get(place);
            return (
              <Still of={turn ? `${place} ${place === current} ${isRaw}` : null}>
                {() =>
                  turn ? (
                    <TurnView turn={turn} trace={id} before={place === 0 ? head.before : []} isCurrent={place === current} isRaw={isRaw} />
                  ) : (
                    <div class="turn blank">
                      <span class="number faint">turn {whole(place)}</span>
                    </div>
                  )
                }
              </Still>
            );
          }}
        />
        <Minimap count={head.n_turns} marks={head.marks} view={view} go={jump} />
      </div>
    </div>
  );
}

function About({ of }: { of: TraceAnswer }) {
  const parts = [
    `${of.source.agent}${of.source.version ? ` ${of.source.version}` : ""}`,
    of.source.file,
    `${whole(of.n_turns)} turns, ${whole(of.n_messages)} messages`,
    of.tools_inferred ? "tools inferred" : "",
    of.source.licence ? `licence ${of.source.licence}` : "",
  ].filter(Boolean);
  return (
    <>
      {parts.join(" · ")}
      {of.task_id && (
        <>
          {" · "}
          <Link kind="task" id={of.task_id}>
            {of.task_id}
          </Link>
        </>
      )}
    </>
  );
}

function TurnView(props: { turn: Turn; trace: string; before: Message[]; isCurrent: boolean; isRaw: boolean }) {
  const { turn, trace, isRaw } = props;
  const { run } = useHere();
  return (
    <article class={`turn${props.isCurrent ? " current" : ""}${turn.sites.length ? " site" : ""}`} id={`turn-${turn.turn}`} aria-label={`turn ${turn.turn}`}>
      {props.before.map((message) => (
        <MessageView run={run} trace={trace} message={message} isRaw={isRaw} />
      ))}
      <div class="turn-head">
        <a class="number" href={link(run, "trace", trace, { turn: String(turn.turn) })}>
          turn {whole(turn.turn)}
        </a>
        {turn.source_model && <span class="faint">{turn.source_model}</span>}
        {turn.fidelity !== "exact" && <span class="faint">{words(turn.fidelity)}</span>}
        {turn.abandoned && <span class="wrong">abandoned</span>}
        {turn.sites.map((site) => (
          <a class="mark site" href={link(run, "site", site.id)}>
            ✕ {words(site.label)}
          </a>
        ))}
        {turn.pairs.map((pair) => (
          <a class="mark pair" href={link(run, "pair", pair.id)}>
            ⇄ pair
          </a>
        ))}
        <Bytes trace={trace} turn={turn} />
      </div>
      {turn.thinking && (
        <details class="thinking">
          <summary>thinking</summary>
          <pre class="text">{turn.thinking}</pre>
        </details>
      )}
      {turn.messages.map((message) => (
        <MessageView run={run} trace={trace} message={message} isRaw={isRaw} />
      ))}
    </article>
  );
}

function unfold(turn: number): void {
  for (const button of document.querySelectorAll<HTMLElement>(`#turn-${turn} .more`)) button.click();
}

/** Windows of turns as they come into view; a window with long texts comes in several answers. */
function useTurns(run: string, id: string, head: TraceAnswer) {
  const windows = useRef(new Map<number, Turn[]>([[0, head.turns]]));
  const asked = useRef(new Set<number>());
  const timer = useRef(0);
  const seen = useRef<[number, number]>([0, 0]);
  const [, redraw] = useState(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const load = async (window: number) => {
    if (asked.current.has(window) || (windows.current.has(window) && window !== 0)) return;
    asked.current.add(window);
    const to = Math.min((window + 1) * WINDOW, Math.max(head.n_turns, WINDOW));
    const turns = window === 0 ? [...head.turns] : [];
    for (let from = window * WINDOW + turns.length; from < Math.min(to, head.n_turns); from = window * WINDOW + turns.length) {
      const answer = await ask<TraceAnswer>(run, "trace", { id, from, to: (window + 1) * WINDOW });
      if (!answer.turns.length) break;
      turns.push(...answer.turns);
    }
    windows.current.set(window, turns);
    for (const oldest of windows.current.keys()) {
      if (windows.current.size <= MOST_WINDOWS) break;
      if (oldest !== 0 && oldest !== window) {
        windows.current.delete(oldest);
        asked.current.delete(oldest);
      }
    }
    redraw((n) => n + 1);
  };
  return {
    get: (place: number) => windows.current.get(Math.floor(place / WINDOW))?.[place % WINDOW],
    see: (first: number, last: number) => {
      seen.current = [first, Math.min(last + 5, head.n_turns - 1)];
      timer.current ||= window.setTimeout(() => {
        timer.current = 0;
        for (let part = Math.floor(seen.current[0] / WINDOW); part <= Math.floor(seen.current[1] / WINDOW); part++) load(part);
      }, SETTLE_MS);
    },
  };
}

function useFind(run: string, trace: string) {
  const [results, setResults] = useState<SearchResult[]>([]);
  const [at, setAt] = useState(0);
  const [status, setStatus] = useState("");
  const asked = useRef(0);
  useEffect(() => () => void asked.current++, []);
  const show = (found: SearchResult[], place: number, jump: (turn: number) => void) => {
    setAt(place);
    setStatus(found.length ? `${place + 1} of ${found.length}` : "nothing found");
    const turn = found[place]?.turn;
    if (turn !== undefined) jump(turn ?? 0);
  };
  return {
    status,
    search: async (q: string, jump: (turn: number) => void) => {
      try {
        for (const mine = ++asked.current; mine === asked.current; ) {
          const { results: found, indexing } = await askSearch(run, { q, kind: "trace", trace, limit: 200 });
          if (mine !== asked.current) return;
          setResults(found);
          if (!indexing || found.length) return show(found, 0, jump);
          setStatus(`indexed ${whole(indexing.done)} of ${whole(indexing.total)}`);
          await new Promise((done) => setTimeout(done, INDEXING_MS));
        }
      } catch (problem) {
        setStatus((problem as Error).message);
      }
    },
    move: (by: number, jump: (turn: number) => void) => {
      if (results.length) show(results, (at + by + results.length) % results.length, jump);
    },
  };
}

