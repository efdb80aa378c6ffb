// One pair: chosen beside rejected, argument by argument, and why it was kept.
import { link } from "../address";
import { useAnswer } from "../answers";
import { percent, short, words } from "../format";
import { useKeys } from "../keys";
import { Chain } from "../parts/chain";
import { Facts, Heading, Link, RefLink, Section, useHere, Waiting } from "../parts/common";
import { SideBySide } from "../parts/diff";
import { CallView } from "../parts/message";
import { Replies } from "../parts/replies";
import { marked, Prose } from "../parts/text";
import type { PairAnswer, Side } from "../types";
import { SawSection } from "./site";

export function PairPage() {
  const { run, id } = useHere();
  const asked = useAnswer<PairAnswer>(run, "pair", { id });
  return <Waiting asked={asked}>{(answer) => <Pair answer={answer} />}</Waiting>;
}

function Pair({ answer }: { answer: PairAnswer }) {
  const { run, id } = useHere();
  const { why, diff, trace, turn } = answer;
  useKeys([
    { key: "t", does: "the trace at this turn", act: () => (location.hash = link(run, "trace", trace.trace_id, { turn: String(turn.turn) })) },
    { key: "s", does: "the site", act: () => answer.site && (location.hash = link(run, "site", answer.site.id)) },
  ]);
  return (
    <div class="column wide-column">
      <Heading
        title={<>Pair: {words(answer.pair.kind)}</>}
        sub={
          <>
            <span class="mono">{short(id)}</span>, turn {turn.turn} of{" "}
            <Link kind="turn" id={`${trace.trace_id}:${turn.turn}`}>
              trace <span class="mono">{short(trace.trace_id)}</span>
            </Link>
          </>
        }
      />
      <Section title="Why it was kept">
        <p class="said">{why.kept_because}</p>
        {why.who_voted && <p class="said">Votes: {why.who_voted}.</p>}
        <ul class="doubts" aria-label="reasons to doubt it">
          {why.doubts.map(({ name, says }) => (
            <li>
              <strong>{name}</strong> {says}
            </li>
          ))}
          {!why.doubts.length && <li class="faint">No reason to doubt it was found.</li>}
        </ul>
        <Facts
          of={[
            ["rule", words(why.rule)],
            ["agreement", `${why.votes} of ${why.n} (${words(why.tier)})`],
            ["families", why.families.join(", ")],
            ["precision", why.precision === null ? null : percent(why.precision)],
            ["chosen from", words(why.chosen_from)],
            ["rejected from", words(why.rejected_from)],
            ["off-policy", why.off_policy ? "yes" : "no"],
            ["simulated", why.simulated ? "yes" : "no"],
            ["site", answer.site && <RefLink to={answer.site} />],
            ["hint", answer.hint && <RefLink to={answer.hint} />],
            ["read in training", answer.training.length ? `step ${answer.training.join(", ")}` : "not yet"],
          ]}
        />
      </Section>
      <div class="two sides">
        <Half title="✓ chosen" side={answer.chosen} tone="good" />
        <Half title="✕ rejected" side={answer.rejected} tone="bad" />
      </div>
      {diff.arguments.length > 0 && (
        <Section title="Arguments" note={diff.same_tool ? `both call ${diff.tools[0] ?? "nothing"}` : `${diff.tools[0] ?? "no call"} instead of ${diff.tools[1] ?? "no call"}`}>
          <SideBySide titles={["chosen", "rejected"]} rows={diff.arguments.map(({ path, chosen, rejected, same }) => ({ path, one: chosen, other: rejected, same }))} />
        </Section>
      )}
      <SawSection trace={trace.trace_id} turn={turn.turn} />
      {answer.replies.length > 0 && (
        <Section title="Teachers">
          <Replies replies={answer.replies} />
        </Section>
      )}
      <Chain id={id} />
    </div>
  );
}

function Half({ title, side, tone }: { title: string; side: Side; tone: string }) {
  return (
    <section class={`side ${tone}`}>
      <h2>{title}</h2>
      {side.text && (/^\s*[{[<]/.test(side.text) ? <pre class="text">{marked(side.text)}</pre> : <Prose text={side.text} />)}
      {side.calls.map((call) => (
        <CallView call={call} />
      ))}
      {!side.text && !side.calls.length && <p class="faint">nothing</p>}
    </section>
  );
}
