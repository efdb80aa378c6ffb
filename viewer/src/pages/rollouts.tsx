// Attempts of the policy: by task and step, then as a list; and one attempt.
import { link } from "../address";
import { addressOf, askList, useAnswer, useAsked } from "../answers";
import { decimal, plain, short, whole, words } from "../format";
import { Facts, Heading, JsonTree, Link, RefLink, Section, useHere, Waiting } from "../parts/common";
import { ActionView } from "../parts/message";
import { Table } from "../parts/table";
import { Folded, Prose } from "../parts/text";
import type { Fields, RolloutAnswer } from "../types";
import { LISTS } from "./lists";

const MOST = 500;

export function RolloutsPage() {
  const { run, filters } = useHere();
  const listing = LISTS.rollouts!;
  const query = { kind: "rollout", limit: MOST, offset: 0, ...filters };
  const { answer } = useAsked(addressOf(run, "list", query), () => askList(run, query));
  return (
    <div class="fill">
      <Heading title={listing.title} sub={listing.sub} />
      {answer && answer.rows.length > 0 && <Matrix rows={answer.rows} total={answer.total} />}
      <Table kind="rollout" id={listing.id} columns={listing.columns} />
    </div>
  );
}

function Matrix({ rows, total }: { rows: Fields[]; total: number }) {
  const { run } = useHere();
  const steps = [...new Set(rows.map(({ step }) => Number(step)))].sort((a, b) => a - b);
  const tasks = [...new Set(rows.map(({ task_id }) => String(task_id)))];
  const cells = new Map<string, Fields[]>();
  for (const row of rows) {
    const key = `${row.task_id} ${row.step}`;
    cells.set(key, [...(cells.get(key) ?? []), row]);
  }
  return (
    <div class="reward-matrix" role="region" tabIndex={0} aria-label="rewards by task and step">
      <table>
        <caption>
          A dot is an attempt: filled where the reward is 1{total > rows.length ? `; the first ${rows.length} of ${whole(total)}` : ""}.
        </caption>
        <thead>
          <tr>
            <th scope="col">task</th>
            {steps.map((step) => (
              <th scope="col" class="number">step {step}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {tasks.map((task) => (
            <tr>
              <th scope="row">
                <Link kind="task" id={task}>
                  {task}
                </Link>
              </th>
              {steps.map((step) => (
                <td>
                  {(cells.get(`${task} ${step}`) ?? []).map((row) => (
                    <a
                      class={`attempt ${Number(row.reward) >= 1 ? "solved" : ""}`}
                      href={link(run, "rollout", String(row.id))}
                      aria-label={`reward ${plain(row.reward ?? null)}`}
                      title={`reward ${plain(row.reward ?? null)}`}
                    />
                  ))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function RolloutPage() {
  const { run, id } = useHere();
  const asked = useAnswer<RolloutAnswer>(run, "rollout", { id });
  return (
    <Waiting asked={asked}>
      {(answer) => (
        <div class="column">
          <Heading
            title={<>Rollout of step {answer.step}</>}
            sub={
              <>
                <Link kind="task" id={answer.task_id}>
                  {answer.task_id}
                </Link>
                , <span class="mono">{short(answer.trace_id)}</span>
              </>
            }
          >
            {answer.tokens && <a href={link(run, "tokens", id)}>tokens</a>}
          </Heading>
          <Facts
            of={[
              ["reward", <strong class="number">{decimal(answer.reward)}</strong>],
              ["turns", whole(answer.turns.length)],
              ["sampled tokens", whole(answer.sampled_tokens)],
              ["canaries", answer.canaries.length ? <span class="bad">{plain(answer.canaries)}</span> : "none touched"],
              ["findings", answer.findings.length ? answer.findings.map((finding) => <Link kind="finding" id={finding.finding_id}>{words(finding.hack_class)} </Link>) : "none"],
            ]}
          />
          {answer.tests !== null && (
            <Section title="Tests">
              <JsonTree value={answer.tests} />
            </Section>
          )}
          <Section title="What it was asked">
            {answer.prompt.map((message) => (
              <div class={`message ${message.role}`}>
                <div class="role">{message.role}</div>
                <div class="body">
                  <Folded text={message.content} label={message.role} />
                </div>
              </div>
            ))}
          </Section>
          <Section title="What it did">
            {answer.turns.map((turn, place) => (
              <article class={`turn${turn.error_kinds.length ? " site" : ""}`}>
                <div class="turn-head">
                  <span class="number">turn {place}</span>
                  {turn.error_kinds.map((kind) => (
                    <span class="mark site">✕ {words(kind)}</span>
                  ))}
                </div>
                {turn.hint && (
                  <div class="message hint">
                    <div class="role">hint</div>
                    <div class="body">
                      <Prose text={turn.hint} />
                    </div>
                  </div>
                )}
                <div class="message assistant">
                  <div class="role">assistant</div>
                  <div class="body">
                    <ActionView text={turn.action} />
                  </div>
                </div>
                {turn.observations.map((text) => (
                  <div class={`message tool${turn.error_kinds.length ? " wrong" : ""}`}>
                    <div class="role">{turn.error_kinds.length ? "✕ error" : "tool"}</div>
                    <div class="body">
                      <Folded text={text} label="observation" />
                    </div>
                  </div>
                ))}
              </article>
            ))}
          </Section>
          {answer.others.length > 0 && (
            <Section title="Other attempts at this task">
              <ul class="chain">
                {answer.others.map((other) => (
                  <li>
                    <RefLink to={other} />
                  </li>
                ))}
              </ul>
            </Section>
          )}
        </div>
      )}
    </Waiting>
  );
}
