// One site: what the policy saw, what it did, what would have helped, what teachers did, and what people say.
import { useState } from "preact/hooks";
import { link, refine } from "../address";
import { addressOf, ask, fresh, isExport, post, useAsked } from "../answers";
import { type ArgumentChange, argumentChanges } from "../diff";
import { percent, short, words } from "../format";
import { useKeys } from "../keys";
import { Chain } from "../parts/chain";
import { Facts, Heading, Link, RefLink, Section, useHere, Waiting } from "../parts/common";
import { SideBySide } from "../parts/diff";
import { MessageView } from "../parts/message";
import { Replies } from "../parts/replies";
import { Bytes } from "../parts/source";
import { marked } from "../parts/text";
import type { Json, Message, Saw, SiteAnswer, Votes } from "../types";
import { HintText } from "./record";

const OTHERS = [
  { key: "a", choice: "actor", title: "what the policy did" },
  { key: "0", choice: "none", title: "none of them" },
  { key: "=", choice: "tie", title: "all the same" },
];

export function SitePage() {
  const { run, id, filters } = useHere();
  const isBlind = filters.blind === "1" && !isExport();
  const [voted, setVoted] = useState(0);
  const query = { id, ...(isBlind ? { blind: 1 } : {}) };
  const asked = useAsked(`${addressOf(run, "site", query)} ${voted}`, () =>
    voted ? fresh<SiteAnswer>(addressOf(run, "site", query)) : ask<SiteAnswer>(run, "site", query),
  );
  return <Waiting asked={asked}>{(answer) => <Site answer={answer} isBlind={isBlind} voted={() => setVoted(voted + 1)} />}</Waiting>;
}

function Site({ answer, isBlind, voted }: { answer: SiteAnswer; isBlind: boolean; voted: () => void }) {
  const here = useHere();
  const { run, id } = here;
  const { site, hint, votes, replies, agreement } = answer;
  const isHidden = isBlind && votes.mine === null;
  const [problem, setProblem] = useState("");
  const canVote = !isExport() && replies.length > 0;
  const vote = (choice: string) => {
    if (!canVote) return;
    post<Votes>(run, "votes", { site: id, choice, blind: isHidden, note: "" }).then(voted, (failure) => setProblem(failure.message));
  };
  useKeys([
    ...replies.map((reply, place) => ({
      key: String(place + 1),
      does: `vote for reply ${place + 1}`,
      act: () => vote(isHidden ? reply.name : (reply.key ?? reply.name)),
    })),
    ...OTHERS.map(({ key, choice, title }) => ({ key, does: `vote: ${title}`, act: () => vote(choice) })),
    { key: "b", does: "blind or open", act: () => refine(here, { blind: here.filters.blind === "1" ? "" : "1" }) },
    { key: "t", does: "the trace at this turn", act: () => (location.hash = link(run, "trace", site.trace_id, { turn: String(site.turn) })) },
  ]);
  return (
    <div class="column wide-column">
      <Heading
        title={<>✕ {words(site.error_kind)}</>}
        sub={
          <>
            site <span class="mono">{short(id)}</span>, turn {site.turn} of{" "}
            <Link kind="turn" id={`${site.trace_id}:${site.turn}`}>
              trace <span class="mono">{short(site.trace_id)}</span>
            </Link>{" "}
            ({answer.trace.source.agent})
          </>
        }
      >
        {!isExport() && (
          <label class="switch">
            <input type="checkbox" checked={isBlind} onChange={() => refine(here, { blind: isBlind ? "" : "1" })} /> blind
          </label>
        )}
      </Heading>
      <pre class="text bad">{marked(site.error_message)}</pre>
      <Facts
        of={[
          ["tool", String(site.tool_name ?? "")],
          ["fault", String(site.fault ?? "")],
          ["found by", String(site.detector ?? "")],
          ["confidence", percent(Number(site.confidence))],
          ["pair", answer.pair && <RefLink bare to={answer.pair} />],
          ["read in training", answer.training.length ? `step ${answer.training.join(", ")}` : null],
        ]}
      />
      <SawSection trace={site.trace_id} turn={site.turn} />
      <Section title="The wrong turn" note={<Bytes trace={site.trace_id} turn={answer.turn} />}>
        <div class="wrong-turn">
          {answer.turn.messages.map((message) => (
            <MessageView run={run} trace={site.trace_id} message={message} />
          ))}
        </div>
      </Section>
      {hint && <HintText of={hint} />}
      <Section
        title="What teachers did instead"
        note={
          isHidden
            ? "names, cost and agreement come after your vote"
            : agreement && replies.length > 0 && `${agreement.largest} of ${agreement.families} families agree, ${agreement.needed} needed${missing(agreement.without_vote)}`
        }
      >
        {replies.length ? (
          <Replies replies={replies} mine={votes.mine?.choice ?? null} tally={votes.tally} vote={canVote ? vote : undefined} isBlind={isHidden} />
        ) : (
          <p class="faint">No teacher was asked about this state.</p>
        )}
        {canVote && (
          <p class="votes">
            {OTHERS.map(({ key, choice, title }) => (
              <button class="vote" aria-pressed={votes.mine?.choice === choice} onClick={() => vote(choice)}>
                <kbd>{key}</kbd> {title}
                {votes.tally?.[choice] ? ` (${votes.tally[choice]})` : ""}
              </button>
            ))}
            <span role="status" class="faint">
              {problem || (votes.mine ? `Your vote is kept${votes.mine.blind ? ", given blind" : ""}.` : "No vote of yours yet.")}
            </span>
          </p>
        )}
      </Section>
      {replies.length > 0 && <Between answer={answer} />}
      {!isHidden && <Chain id={id} />}
    </div>
  );
}

interface Column {
  title: string;
  tool: string | null;
  arguments: Json;
  text: string;
}

/** Any two columns, the policy's own turn among them, argument by argument and word by word. */
function Between({ answer }: { answer: SiteAnswer }) {
  const here = useHere();
  const own = answer.turn.messages[0];
  const call = own?.tool_calls?.[0];
  const columns: Column[] = [
    { title: "the policy", tool: call?.name ?? null, arguments: call?.parsed ?? null, text: own?.content ?? "" },
    ...answer.replies.map(({ name, action, text }) => ({ title: name, tool: action?.name ?? null, arguments: action?.arguments ?? null, text })),
  ];
  const [first, second] = [Number(here.filters.one ?? 1), Number(here.filters.other ?? 0)];
  const [one, other] = [columns[first], columns[second]];
  const choice = (name: string, chosen: number) => (
    <select aria-label={`${name} column`} value={String(chosen)} onChange={(event) => refine(here, { [name]: event.currentTarget.value })}>
      {columns.map(({ title }, place) => (
        <option value={String(place)}>{title}</option>
      ))}
    </select>
  );
  return (
    <Section
      title="Side by side"
      note={
        <>
          {choice("one", first)} and {choice("other", second)}
        </>
      }
    >
      {one && other && <SideBySide titles={[one.title, other.title]} rows={changesBetween(one, other)} />}
    </Section>
  );
}

function changesBetween(one: Column, other: Column): ArgumentChange[] {
  const told = (path: string, left: string | null, right: string | null) => ({ path, one: left, other: right, same: left === right });
  return [
    told("tool", one.tool, other.tool),
    ...(one.text || other.text ? [told("text", one.text || null, other.text || null)] : []),
    ...argumentChanges(one.arguments, other.arguments),
  ];
}

const missing = (reasons: Record<string, number>) =>
  Object.entries(reasons)
    .map(([reason, count]) => `, ${count} without a vote (${reason})`)
    .join("");

export function SawSection({ trace, turn }: { trace: string; turn: number }) {
  const { run } = useHere();
  const asked = useAsked(addressOf(run, "saw", { trace, turn }), () => ask<Saw>(run, "saw", { trace, turn }));
  const [earlier, setEarlier] = useState<Message[]>([]);
  const saw = asked.answer;
  if (!saw) return null;
  const first = earlier[0]?.n ?? saw.messages[0]?.n;
  const left = saw.from - earlier.length;
  const more = async () => {
    const from = Math.max(0, left - 50);
    const part = await ask<Saw>(run, "saw", { trace, turn, from, to: left });
    setEarlier([...part.messages, ...earlier]);
  };
  return (
    <Section title="What the policy saw" note={`${saw.total} messages`}>
      <details class="saw" open={saw.total <= 4}>
        <summary>the last {saw.messages.length + earlier.length} before the turn</summary>
        {left > 0 && !isExport() && first !== undefined && (
          <button class="more" onClick={more}>
            {left} earlier
          </button>
        )}
        {[...earlier, ...saw.messages].map((message) => (
          <MessageView run={run} trace={trace} message={message} />
        ))}
      </details>
    </Section>
  );
}
