// The run as a whole: what became of everything, what it cost, how far teachers agree.
import { useEffect, useState } from "preact/hooks";
import { link } from "../address";
import { addressOf, fresh, isExport, useAnswer } from "../answers";
import { cents, dollars, percent, seconds, whole, when, words } from "../format";
import { Chart } from "../parts/chart";
import { Facts, Heading, Section, Waiting, useHere } from "../parts/common";
import { asDifference, asShare, ends, Interval } from "../parts/estimate";
import type { Agreement, Drop, Estimate, Fields, FunnelRow, RunAnswer, Spend } from "../types";

export function RunPage() {
  const { run } = useHere();
  const asked = useAnswer<RunAnswer>(run, "run");
  return (
    <Waiting asked={asked}>
      {(answer) => (
        <div class="column">
          <Heading title={answer.run} sub={`${answer.trained_on}, ${answer.model}, seed ${answer.seed}, made ${when(answer.created)}`} />
          <Next of={answer} run={run} />
          <Section title="From traces to training" note="a bar or a reason opens the list">
            <Funnel rows={answer.funnel} run={run} />
          </Section>
          {answer.result && <Result of={answer.result} />}
          {answer.spend && <Spending of={answer.spend} />}
          <Agreements />
          <Section title="Stages">
            <Stages of={answer} />
          </Section>
          <details>
            <summary>Settings of the run</summary>
            <pre class="text">{JSON.stringify(answer.config, null, 2)}</pre>
          </details>
        </div>
      )}
    </Waiting>
  );
}

const EVERY_MS = 5000;

/** While a command works on the run, what it is at; else what to do next. */
function Next({ of, run }: { of: RunAnswer; run: string }) {
  const [{ now, next }, set] = useState(of);
  useEffect(() => {
    set(of);
    if (!of.now || isExport()) return;
    const timer = window.setInterval(() => fresh<RunAnswer>(addressOf(run, "run")).then(set, () => {}), EVERY_MS);
    return () => clearInterval(timer);
  }, [of]);
  if (now)
    return (
      <p class="next" role="status">
        Now: {now} · <a href={link(run, "training")}>curves</a>
      </p>
    );
  return (
    next && (
      <p class="next">
        Next: <code>{next}</code>
      </p>
    )
  );
}

/** Sessions of several agents hold dozens of kinds of lines that are no turns. */
const SHOWN = 5;

function listOf(run: string, row: FunnelRow, filters: Record<string, string>): string {
  const { page = row.page, ...rest } = filters;
  return link(run, page, "", rest);
}

function Funnel({ rows, run }: { rows: FunnelRow[]; run: string }) {
  const most = Math.max(1, ...rows.map(({ count }) => count ?? 0));
  return (
    <ol class="funnel">
      {rows.map((row) => (
        <li>
          <a class="name" href={link(run, row.page)}>
            {row.label}
          </a>
          <span class="number count">{whole(row.count)}</span>
          <a class="bar" href={link(run, row.page)} tabIndex={-1} aria-hidden="true">
            <span style={{ width: `${(100 * (row.count ?? 0)) / most}%` }} />
          </a>
          <span class="drops">
            {row.count === null && <span class="faint">not done yet</span>}
            {row.drops.slice(0, SHOWN).map((drop) => (
              <Reason of={drop} row={row} run={run} />
            ))}
            {row.drops.length > SHOWN && (
              <details>
                <summary>{row.drops.length - SHOWN} more kinds</summary>
                {row.drops.slice(SHOWN).map((drop) => (
                  <Reason of={drop} row={row} run={run} />
                ))}
              </details>
            )}
            {row.links.map(({ reason, count, filters }) => (
              <a href={listOf(run, row, filters ?? {})}>
                {reason}: {whole(count)}
              </a>
            ))}
          </span>
        </li>
      ))}
    </ol>
  );
}

/** Sites by whose fault they are stay in the run; all other reasons say what is gone. */
function Reason({ of, row, run }: { of: Drop; row: FunnelRow; run: string }) {
  const text = `${words(of.reason)} ${whole(of.count)}`;
  const kind = row.noun === "sites" ? "part" : "drop";
  if (!of.filters) return <span class={kind}>{text}</span>;
  return (
    <a class={kind} href={listOf(run, row, of.filters)}>
      {text}
    </a>
  );
}

function Result({ of }: { of: Fields }) {
  const { run } = useHere();
  const [before, after, difference] = [of.success_before, of.success_after, of.difference] as unknown as (Estimate | null)[];
  if (!before || !after || !difference) return null;
  return (
    <Section title="Before and after training" note={<a href={link(run, "compare")}>task by task</a>}>
      <div class="estimates">
        <span>before</span>
        <Interval of={before} low={0} high={1} label={asShare(before)} />
        <span class="number">{asShare(before)}</span>
        <span>after</span>
        <Interval of={after} low={0} high={1} label={asShare(after)} />
        <span class="number">{asShare(after)}</span>
        <span>difference</span>
        <Interval of={difference} low={-1} high={1} label={asDifference(difference)} />
        <span class="number">{asDifference(difference)}</span>
      </div>
    </Section>
  );
}

function Spending({ of }: { of: Spend }) {
  const isTimed = (of.over_calls.at(-1)?.after_s ?? 0) > 0;
  return (
    <Section title="Spend" note={of.simulated ? "teachers were simulated: they cost nothing" : null}>
      <Facts
        of={[
          ["spent", dollars(of.spent_micros)],
          ["held back", of.held_micros ? dollars(of.held_micros) : null],
          ["cap", of.cap_micros === null ? "none" : dollars(of.cap_micros)],
          ["per pair", of.micros_per_pair === null ? null : cents(of.micros_per_pair)],
        ]}
      />
      <div class="beside">
        {of.spent_micros > 0 && (
          <Chart
            title={isTimed ? "spent over time" : "spent over calls"}
            x={isTimed ? seconds : (call) => `call ${call}`}
            zero
            format={dollars}
            series={[{ name: "all teachers", points: of.over_calls.map(({ call, after_s, micros }) => [isTimed ? (after_s ?? 0) : call, micros]) }]}
          />
        )}
        <div class="wide-table">
          <table>
            <thead>
              <tr>
                <th scope="col">teacher</th>
                <th scope="col" class="number">answered</th>
                <th scope="col" class="number">failed</th>
                <th scope="col" class="number">tokens in</th>
                <th scope="col" class="number">tokens out</th>
                <th scope="col" class="number">latency, median</th>
                <th scope="col" class="number">95%</th>
                <th scope="col" class="number">spent</th>
              </tr>
            </thead>
            <tbody>
              {of.teachers.map((each) => (
                <tr>
                  <th scope="row">{each.teacher}</th>
                  <td class="number">{whole(each.attempts.settled ?? 0)}</td>
                  <td class="number">{whole((each.attempts.failed ?? 0) + (each.attempts.refused ?? 0))}</td>
                  <td class="number">{whole(each.prompt_tokens)}</td>
                  <td class="number">{whole(each.completion_tokens)}</td>
                  <td class="number">{seconds(each.latency_s?.p50)}</td>
                  <td class="number">{seconds(each.latency_s?.p95)}</td>
                  <td class="number">{dollars(each.spent_micros)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
    </Section>
  );
}

function Agreements() {
  const { run } = useHere();
  const { answer } = useAnswer<Agreement>(run, "agreement");
  if (!answer?.teachers.length) return null;
  return (
    <Section title="Agreement of teachers" note="share of states where both called the same; states in brackets">
      <div class="wide-table">
        <table class="matrix">
          <thead>
            <tr>
              <td />
              {answer.teachers.map((name) => (
                <th scope="col" class="number">{name}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {answer.teachers.map((name, row) => (
              <tr>
                <th scope="row">
                  <a href={link(run, "replies", "", { teacher: name })}>{name}</a>
                </th>
                {answer.teachers.map((_, column) => {
                  const share = answer.same[row]?.[column] ?? null;
                  return (
                    <td class="number shade" style={{ "--share": share === null ? 0 : share }}>
                      {share === null ? "·" : `${percent(share)} (${whole(answer.n[row]?.[column])})`}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {(["blind", "open"] as const).map((how) => answer.people[how] && <People of={answer.people[how]} how={how} />)}
    </Section>
  );
}

function People({ of, how }: { of: Estimate; how: string }) {
  return (
    <p class="people">
      People and the teachers' vote, {how} votes: kappa <strong>{of.mean.toFixed(2)}</strong>{" "}
      <span class="number">
        (95%: {ends(of, (value) => value.toFixed(2))}), {whole(of.n)} {of.n === 1 ? "site" : "sites"}
      </span>
    </p>
  );
}

function Stages({ of }: { of: RunAnswer }) {
  return (
    <div class="wide-table">
      <table>
        <thead>
          <tr>
            <th scope="col">stage</th>
            <th scope="col">done</th>
            <th scope="col" class="number">records</th>
            <th scope="col" class="number">time</th>
          </tr>
        </thead>
        <tbody>
          {of.stages.map((stage) => (
            <tr>
              <th scope="row">{stage.noun}</th>
              <td>{stage.done ? "yes" : "not yet"}</td>
              <td class="number">{whole(stage.records)}</td>
              <td class="number">{seconds(stage.seconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
