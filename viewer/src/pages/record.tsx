// Pages of what has no richer one: a hint, a reply, a task, and whatever has an id.
import { useEffect } from "preact/hooks";
import { go, linkTo } from "../address";
import { addressOf, askList, useAnswer, useAsked } from "../answers";
import { plain, short, whole, words } from "../format";
import { Chain } from "../parts/chain";
import { Heading, Link, Section, useHere, Waiting } from "../parts/common";
import { Replies } from "../parts/replies";
import { Folded, marked } from "../parts/text";
import type { Fields, Hint, Reply, ShowAnswer, TaskAnswer } from "../types";

export function HintPage() {
  const { run, id } = useHere();
  const query = { kind: "hint", hint_id: id, limit: 1, offset: 0 };
  const asked = useAsked(addressOf(run, "list", query), () => askList(run, query));
  return (
    <div class="column">
      <Heading title="Hint" sub={<span class="mono">{short(id)}</span>} />
      <Waiting asked={asked}>{(answer) => (answer.rows[0] ? <HintText of={answer.rows[0] as unknown as Hint} /> : <p>This run has no hint with this id.</p>)}</Waiting>
      <Chain id={id} />
    </div>
  );
}

export function HintText({ of }: { of: Hint }) {
  return (
    <Section title="Hint and sham" note={`${of.layer}, leak ${of.leak_level}, ${of.tokens} tokens`}>
      <div class="two">
        <div>
          <h3>hint</h3>
          <p class="said">{marked(of.text)}</p>
        </div>
        <div>
          <h3>sham</h3>
          <p class="said faint">{of.sham_text ? marked(of.sham_text) : "none"}</p>
        </div>
      </div>
    </Section>
  );
}

export function ReplyPage() {
  const { run, id } = useHere();
  const asked = useAnswer<{ reply: Reply }>(run, "reply", { id });
  return (
    <div class="column">
      <Heading title="Reply" sub={<span class="mono">{short(id)}</span>} />
      <Waiting asked={asked}>{({ reply }) => <Replies replies={[reply]} />}</Waiting>
      <Chain id={id} />
    </div>
  );
}

export function TaskPage() {
  const { run, id } = useHere();
  const asked = useAnswer<TaskAnswer>(run, "task", { id });
  return (
    <Waiting asked={asked}>
      {(task) => (
        <div class="column">
          <Heading title="Task" sub={<span class="mono">{id}</span>} />
          {task.statement === null ? (
            <p class="faint">The run holds outcomes of this task only, not its text.</p>
          ) : (
            <Section title="Statement" note="as the first attempt was told it">
              <Folded text={task.statement} label="statement" most={40} raw={false} />
            </Section>
          )}
          <Rows title="Traces" rows={task.traces} link={(row) => ["trace", String(row.trace_id)]} columns={["title", "agent", "turns", "outcome"]} />
          <Rows title="Rollouts in training" rows={task.rollouts} link={(row) => ["rollout", String(row.id)]} columns={["step", "reward", "turns", "errors"]} />
          <Rows title="Evaluation" rows={task.outcomes} columns={["split", "phase", "sample", "reward", "turns", "errors"]} />
          <Rows title="Findings" rows={task.findings} link={(row) => ["finding", String(row.finding_id)]} columns={["hack_class", "rule", "evidence"]} />
        </div>
      )}
    </Waiting>
  );
}

function Rows(props: { title: string; rows: Fields[]; columns: string[]; link?: (row: Fields) => [string, string] }) {
  if (!props.rows.length) return null;
  return (
    <Section title={props.title} note={whole(props.rows.length)}>
      <div class="wide-table">
        <table>
          <thead>
            <tr>
              {props.link && <th scope="col">id</th>}
              {props.columns.map((column) => (
                <th scope="col" class={typeof props.rows[0]?.[column] === "number" ? "number" : ""}>{words(column)}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {props.rows.map((row) => {
              const target = props.link?.(row);
              return (
                <tr>
                  {target && (
                    <th scope="row">
                      <Link kind={target[0]} id={target[1]} />
                    </th>
                  )}
                  {props.columns.map((column) => (
                    <td class={typeof row[column] === "number" ? "number" : ""}>{plain(row[column])}</td>
                  ))}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

/** Goes on to the page of whatever has this id, and says so where nothing has. */
export function AnyPage() {
  const { run, id } = useHere();
  const asked = useAnswer<ShowAnswer>(run, "show", { id });
  useEffect(() => {
    if (asked.answer) go(linkTo(run, asked.answer.kind, asked.answer.id));
  }, [asked.answer]);
  return (
    <Waiting asked={asked}>
      {(found) => (
        <p>
          It is a {found.kind}: <Link kind={found.kind} id={found.id} />
        </p>
      )}
    </Waiting>
  );
}
