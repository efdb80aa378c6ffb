// Teachers side by side: what each would have done in the same state, for how many cents, how fast, and its vote.
import { cents, seconds, whole, words } from "../format";
import type { Reply } from "../types";
import { Facts } from "./common";
import { CallView } from "./message";
import { Folded } from "./text";

export function Replies(props: { replies: Reply[]; mine?: string | null; tally?: Record<string, number> | null; vote?: (choice: string) => void; isBlind?: boolean }) {
  return (
    <div class="columns">
      {props.replies.map((reply, place) => {
        const choice = props.isBlind ? reply.name : (reply.key ?? reply.name);
        const isMine = props.mine !== null && props.mine !== undefined && (props.mine === reply.key || props.mine === reply.name);
        return (
          <article class={isMine ? "mine" : ""} aria-label={`reply of ${reply.name}`}>
            <h3>
              {reply.name}
              {reply.voted_for_chosen && <span class="good">✓ voted for the chosen call</span>}
              {reply.no_vote && <span class="bad">✕ no vote: {reply.no_vote}</span>}
            </h3>
            {reply.text && <Folded text={reply.text} label={`text of ${reply.name}`} most={10} raw={false} />}
            {reply.action ? <CallView call={reply.action} /> : <p class="faint">no call: {words(reply.outcome)}</p>}
            <Facts
              of={[
                ["outcome", words(reply.outcome)],
                ["finished", reply.finish_reason && words(reply.finish_reason)],
                ["cost", reply.cost_micros === null ? null : cents(reply.cost_micros)],
                ["latency", reply.latency_s === null ? null : seconds(reply.latency_s)],
                ["tokens", reply.prompt_tokens === null ? null : `${whole(reply.prompt_tokens)} in, ${whole(reply.completion_tokens)} out`],
                ["served", reply.served_model !== reply.teacher ? reply.served_model : null],
                ["people", (reply.key && props.tally?.[reply.key]) || null],
                ["simulated", reply.simulated && !props.isBlind ? "yes" : null],
              ]}
            />
            {props.vote && (
              <button class="vote" aria-pressed={isMine} onClick={() => props.vote?.(choice)}>
                <kbd>{place + 1}</kbd> {isMine ? "my vote" : "vote"}
              </button>
            )}
          </article>
        );
      })}
    </div>
  );
}
