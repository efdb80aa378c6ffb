// A message of a trace: what was said, what was called, what came back.
import { Component, type ComponentChildren } from "preact";
import { ask } from "../answers";
import { type Change, difference, fromPatch, lines } from "../diff";
import type { Call, Fields, Json, Message } from "../types";
import { Diff } from "./diff";
import { JsonTree } from "./common";
import { Folded } from "./text";

/** Does not draw again while `of` is the same thing. */
export class Still extends Component<{ of: unknown; children: () => ComponentChildren }> {
  override shouldComponentUpdate(next: { of: unknown }) {
    return next.of !== this.props.of;
  }
  override render() {
    return this.props.children();
  }
}

export function MessageView({ run, trace, message, isRaw }: { run: string; trace: string; message: Message; isRaw?: boolean }) {
  if (isRaw) return <pre class="text raw">{JSON.stringify(message, null, 1)}</pre>;
  const isTool = message.role === "tool";
  const patch = isTool ? fromPatch(message.content) : null;
  const rest = async () => (await ask<Message>(run, "message", { trace, n: message.n })).content;
  return (
    <div class={`message ${message.role}${message.is_error ? " wrong" : ""}`}>
      <div class="role">
        {message.is_error ? "✕ error" : message.supplied ? "system, supplied: in no file of yours" : message.role}
        <span class="faint number">{message.n}</span>
      </div>
      <div class="body">
        {patch && !message.cut ? (
          <Diff changes={patch} label="patch" />
        ) : (
          message.content && (
            <Folded
              text={message.content}
              cut={message.cut}
              rest={rest}
              most={isTool ? 8 : 40}
              label={`message ${message.n}`}
              raw={isTool || message.role === "system"}
            />
          )
        )}
        {message.tool_calls?.map((call) => <CallView call={call} />)}
      </div>
    </div>
  );
}

export function CallView({ call }: { call: { name: string; arguments?: Json; parsed?: Json } | Call }) {
  const parsed = "parsed" in call ? (call.parsed ?? null) : (call.arguments ?? null);
  const changes = editIn(parsed);
  return (
    <div class="call">
      <div class="name">
        <span aria-hidden="true">→ </span>
        {call.name}
      </div>
      {changes ? (
        <>
          {changes.where && <div class="mono faint">{changes.where}</div>}
          {changes.each.map((each) => (
            <Diff changes={each} label={`edit of ${changes.where}`} />
          ))}
        </>
      ) : parsed === null ? (
        <Folded text={String(call.arguments ?? "")} label="arguments" />
      ) : typeof parsed === "object" && JSON.stringify(parsed).length > 6000 ? (
        <Folded text={JSON.stringify(parsed, null, 1)} label="arguments" />
      ) : (
        <JsonTree value={parsed} />
      )}
    </div>
  );
}

/** An action of a policy as it wrote it, its calls set apart where they can be read. */
export function ActionView({ text }: { text: string }) {
  const parts = text.split(/<tool_call>([\s\S]*?)<\/tool_call>/);
  return (
    <>
      {parts.map((part, place) => {
        const call = place % 2 ? readCall(part) : null;
        if (call) return <CallView call={call} />;
        return part && <Folded text={place % 2 ? `<tool_call>${part}</tool_call>` : part} label="action" most={30} />;
      })}
    </>
  );
}

function readCall(text: string): { name: string; arguments: Json } | null {
  try {
    const found = JSON.parse(text) as Fields;
    return typeof found.name === "string" ? { name: found.name, arguments: found.arguments ?? null } : null;
  } catch {
    return null;
  }
}

const OLD = ["old_string", "old_str", "oldText", "old_text", "search"];
const NEW = ["new_string", "new_str", "newText", "new_text", "replace"];

/** Arguments that replace a text by another, as the change that they make. */
function editIn(parsed: Json): { where: string; each: Change[][] } | null {
  if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) return null;
  const where = String(parsed.file_path ?? parsed.path ?? parsed.filename ?? "");
  const edits = Array.isArray(parsed.edits) ? (parsed.edits as Fields[]) : [parsed];
  const each = edits.map(oneEdit).filter((found): found is Change[] => found !== null);
  if (each.length && each.length === edits.length) return { where, each };
  const patch = [parsed.patch, parsed.diff, parsed.input].find((value) => typeof value === "string");
  const changes = typeof patch === "string" ? fromPatch(patch) : null;
  return changes ? { where, each: [changes] } : null;
}

function oneEdit(edit: Fields): Change[] | null {
  if (edit === null || typeof edit !== "object") return null;
  const [before, after] = [OLD, NEW].map((names) => names.map((name) => edit[name]).find((value) => typeof value === "string"));
  return typeof before === "string" && typeof after === "string" ? difference(lines(before), lines(after)) : null;
}
