// What the monitor found, with the lines that show it.
import { refine } from "../address";
import { useAnswer } from "../answers";
import { decimal, plain, short, whole, words } from "../format";
import { Facts, Heading, Link, Section, useHere, Waiting } from "../parts/common";
import { MessageView } from "../parts/message";
import { marked } from "../parts/text";
import type { Fields, Finding, MonitorAnswer, TraceCard, Turn } from "../types";

const SHOWN = 20;

export function MonitorPage() {
  const here = useHere();
  const { run, filters } = here;
  const asked = useAnswer<MonitorAnswer>(run, "monitor");
  return (
    <Waiting asked={asked}>
      {(answer) => {
        const classes = [...new Set(answer.findings.map((finding) => finding.hack_class))];
        const kinds = [...new Set(answer.findings.map((finding) => finding.evidence))];
        const findings = answer.findings.filter(
          (finding) => (!filters.hack_class || finding.hack_class === filters.hack_class) && (!filters.evidence || finding.evidence === filters.evidence),
        );
        const verdicts = answer.verdicts.filter((verdict) => filters.alarm !== "1" || verdict.alarm === true);
        return (
          <div class="column wide-column">
            <Heading title="Monitor" sub="Signs that an attempt cheats: edited tests, hard-coded answers, looks at what is hidden.">
              <Choice name="hack_class" title="class" values={classes} />
              <Choice name="evidence" title="evidence" values={kinds} />
              <label class="switch">
                <input type="checkbox" checked={filters.alarm === "1"} onChange={() => refine(here, { alarm: filters.alarm === "1" ? "" : "1" })} /> alarms only
              </label>
            </Heading>
            {answer.next && (
              <p class="next">
                Next: <code>{answer.next}</code>
              </p>
            )}
            <Facts of={Object.entries(answer.counts).flatMap(([name, value]) => (typeof value === "number" ? [[words(name), whole(value)]] : []))} />
            <Section title="Findings" note={whole(findings.length)}>
              {!findings.length && <p class="faint">{answer.done ? "None." : "The monitor has not run."}</p>}
              <div class="findings">
                {findings.map((finding) => (
                  <FindingView finding={finding} />
                ))}
              </div>
            </Section>
            <Section title="Attempts" note={`${whole(verdicts.length)}, the most suspicious first`}>
              <Attempts verdicts={verdicts.slice(0, SHOWN)} />
              {verdicts.length > SHOWN && (
                <details>
                  <summary>{whole(verdicts.length - SHOWN)} more</summary>
                  <Attempts verdicts={verdicts.slice(SHOWN)} />
                </details>
              )}
            </Section>
          </div>
        );
      }}
    </Waiting>
  );
}

function Attempts({ verdicts }: { verdicts: Fields[] }) {
  return (
    <div class="wide-table">
      <table>
        <thead>
          <tr>
            <th scope="col">trace</th>
            <th scope="col">agent</th>
            <th scope="col">alarm</th>
            <th scope="col" class="number">suspicion</th>
            <th scope="col" class="number">auditor</th>
            <th scope="col" class="number">findings</th>
            <th scope="col">classes</th>
          </tr>
        </thead>
        <tbody>
          {verdicts.map((verdict) => (
            <tr>
              <th scope="row">
                <Link kind="trace" id={String(verdict.trace_id)} />
              </th>
              <td>{plain(verdict.agent)}</td>
              <td>{verdict.alarm ? <span class="bad">✕ alarm</span> : "no"}</td>
              <td class="number">{decimal(verdict.p as number | null)}</td>
              <td class="number">{decimal(verdict.auditor_p as number | null)}</td>
              <td class="number">{plain(verdict.findings)}</td>
              <td>{words(plain(verdict.classes))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Choice({ name, title, values }: { name: string; title: string; values: string[] }) {
  const here = useHere();
  return (
    <label>
      {title}{" "}
      <select value={here.filters[name] ?? ""} onChange={(event) => refine(here, { [name]: event.currentTarget.value })}>
        <option value="">any</option>
        {values.map((value) => (
          <option value={value}>{words(value)}</option>
        ))}
      </select>
    </label>
  );
}

function FindingView({ finding }: { finding: Finding }) {
  return (
    <article class="finding">
      <h3>
        <Link kind="finding" id={finding.finding_id}>
          {words(finding.hack_class)}
        </Link>
        <span class="note">
          {words(finding.rule)}, {finding.evidence} evidence in the {finding.layer}, <Link kind="trace" id={finding.trace_id} />
          {finding.step >= 0 ? `, call ${finding.step}` : ""}
        </span>
      </h3>
      <pre class="text offending">{marked(finding.lines.join("\n"))}</pre>
    </article>
  );
}

export function FindingPage() {
  const { run, id } = useHere();
  const asked = useAnswer<{ finding: Finding; trace: TraceCard; turn: Turn | null }>(run, "finding", { id });
  return (
    <Waiting asked={asked}>
      {({ finding, trace, turn }) => (
        <div class="column">
          <Heading
            title={words(finding.hack_class)}
            sub={
              <>
                finding <span class="mono">{short(id)}</span> in{" "}
                {turn ? (
                  <Link kind="turn" id={`${trace.trace_id}:${turn.turn}`}>
                    turn {turn.turn} of trace <span class="mono">{short(trace.trace_id)}</span>
                  </Link>
                ) : (
                  <Link kind="trace" id={trace.trace_id} />
                )}
              </>
            }
          />
          <Facts of={[["rule", words(finding.rule)], ["evidence", finding.evidence], ["layer", finding.layer]]} />
          <Section title="Lines">
            <pre class="text offending">{marked(finding.lines.join("\n"))}</pre>
          </Section>
          {turn && (
            <Section title="The turn">
              {turn.messages.map((message) => (
                <MessageView run={run} trace={trace.trace_id} message={message} />
              ))}
            </Section>
          )}
        </div>
      )}
    </Waiting>
  );
}
