// Where a turn came from, down to the bytes of the file.
import { useState } from "preact/hooks";
import { ask, isExport } from "../answers";
import { whole } from "../format";
import type { SourceBytes, Turn } from "../types";
import { useHere } from "./common";
import { Folded } from "./text";

export function Bytes({ trace, turn }: { trace: string; turn: Turn }) {
  const { run } = useHere();
  const [found, setFound] = useState<SourceBytes | null>(null);
  const [problem, setProblem] = useState("");
  if (!turn.byte_range) return null;
  const [from, to] = turn.byte_range;
  const place = `bytes ${whole(from)} to ${whole(to)}`;
  if (isExport()) return <span class="provenance number">{place}</span>;
  const open = () => {
    if (found) return setFound(null);
    ask<SourceBytes>(run, "source", { trace, turn: turn.turn }).then(setFound, (failure) => setProblem(failure.message));
  };
  return (
    <>
      <button class="provenance number" onClick={open} aria-expanded={found !== null}>
        {place}
      </button>
      {problem && <span class="wrong">{problem}</span>}
      {found && (
        <div class="source">
          <p class="sub">
            {found.file ?? "no file"}, {place}
            {found.found ? ". Not redacted: it may hold secrets." : `: ${found.why}`}
          </p>
          {found.found && <Folded text={found.text} label="source" most={30} />}
        </div>
      )}
    </>
  );
}
