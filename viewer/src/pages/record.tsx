// Pages of what has no richer one: a hint, a reply, a task, and whatever has an id.
import { useEffect } from "preact/hooks";
import { go, linkTo } from "../address";
import { addressOf, askList, useAnswer, useAsked } from "../answers";
import { plain, short, whole, words } from "../format";
import { Chain } from "../parts/chain";
import { Facts, Heading, Link, Section, useHere, Waiting } from "../parts/common";
import { Folded } from "../parts/text";
import type { Fields, ShowAnswer, TaskAnswer } from "../types";

const ID_FIELD: Record<string, string> = { hint: "hint_id", reply: "key" };
const LINKED: Record<string, string> = { site_id: "site", trace_id: "trace" };

export function RecordPage({ kind }: { kind: string }) {
  const { run, id } = useHere();
  const query = { kind, [ID_FIELD[kind] ?? "id"]: id, limit: 1, offset: 0 };
  const asked = useAsked(addressOf(run, "list", query), () => askList(run, query));
  return (
    <div class="column">
      <Heading
        title={
          <>
            {words(kind)} <span class="mono">{short(id)}</span>
          </>
        }
      />
      <Waiting asked={asked}>{(answer) => (answer.rows[0] ? <Row of={answer.rows[0]} /> : <p>This run has no {kind} with this id.</p>)}</Waiting>
      <Chain id={id} />
    </div>
  );
}

function Row({ of }: { of: Fields }) {
  return (
    <Facts
      of={Object.entries(of).map(([name, value]) => [
        words(name),
        LINKED[name] && typeof value === "string" ? <Link kind={LINKED[name]} id={value} /> : <span class="said">{plain(value)}</span>,
      ])}
    />
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
