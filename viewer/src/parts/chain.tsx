// What something came from, down to the bytes, and what was made of it, up to the step of training.
import { useAnswer } from "../answers";
import { whole } from "../format";
import type { ShowAnswer } from "../types";
import { RefLink, Section, useHere } from "./common";

export function Chain({ id }: { id: string }) {
  const { run } = useHere();
  const { answer } = useAnswer<ShowAnswer>(run, "show", { id });
  if (!answer) return null;
  const links = (refs: ShowAnswer["from"]) => (
    <ul class="chain">
      {refs.map((each) => (
        <li>
          {each.kind !== "bytes" ? (
            <RefLink to={each} />
          ) : each.byte_range && each.file ? (
            <span class="number">
              bytes {whole(each.byte_range[0])} to {whole(each.byte_range[1])} of <span class="mono">{each.file}</span>
            </span>
          ) : (
            <span class="faint">played here, so no file</span>
          )}
        </li>
      ))}
      {!refs.length && <li class="faint">nothing</li>}
    </ul>
  );
  return (
    <Section title="Where it came from and what was made of it">
      <div class="two">
        <div>
          <h3>from</h3>
          {links(answer.from)}
        </div>
        <div>
          <h3>to</h3>
          {links(answer.to)}
        </div>
      </div>
    </Section>
  );
}
