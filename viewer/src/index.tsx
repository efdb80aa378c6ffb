// The page: header, the page that the address names, and the help overlay.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Address, go, link, useAddress } from "./address";
import { isExport, openRuns, Refused } from "./answers";
import { type Key, keysNow, listen, useKeys } from "./keys";
import { ComparePage } from "./pages/compare";
import { ListPage } from "./pages/lists";
import { FindingPage, MonitorPage } from "./pages/monitor";
import { PairPage } from "./pages/pair";
import { AnyPage, HintPage, ReplyPage, TaskPage } from "./pages/record";
import { RolloutPage, RolloutsPage } from "./pages/rollouts";
import { RunPage } from "./pages/run";
import { SearchPage } from "./pages/search";
import { SitePage } from "./pages/site";
import { TokensPage } from "./pages/tokens";
import { TracePage } from "./pages/trace";
import { TrainingPage } from "./pages/training";
import { Failed, Here } from "./parts/common";
import { applyTheme, nextTheme, theme } from "./theme";
import type { Runs } from "./types";

/** Page, title, second key after g, and pages that belong under it. */
const MENU: [string, string, string, string[]][] = [
  ["run", "Run", "r", []],
  ["traces", "Traces", "t", ["trace"]],
  ["sites", "Sites", "s", ["site"]],
  ["hints", "Hints", "h", ["hint"]],
  ["replies", "Replies", "e", ["reply"]],
  ["pairs", "Pairs", "p", ["pair"]],
  ["rollouts", "Rollouts", "o", ["rollout", "task"]],
  ["tokens", "Tokens", "k", []],
  ["training", "Training", "l", []],
  ["compare", "Compare", "c", []],
  ["monitor", "Monitor", "m", ["finding"]],
  ["search", "Search", "/", []],
];

function App() {
  const address = useAddress();
  const [runs, setRuns] = useState<Runs | null>(null);
  const [failure, setFailure] = useState<Refused | null>(null);
  const [hasHelp, setHelp] = useState(false);
  useEffect(() => {
    openRuns().then(setRuns, setFailure);
  }, []);
  const here = { ...address, run: address.run || (runs?.runs[0]?.run ?? ""), page: address.page || "run" };
  useEffect(() => {
    document.title = `${here.page}${here.id ? ` ${here.id.slice(0, 10)}` : ""} · ${here.run} · recompose`;
  }, [here.page, here.id, here.run]);
  useKeys([
    { key: "?", does: "this help", act: () => setHelp(!hasHelp) },
    { key: "Escape", does: "close", act: () => setHelp(false) },
    { key: "/", does: "search", act: () => openSearch(here) },
    { key: "d", does: "light, dark, or as the system", act: nextTheme },
    ...MENU.map(([page, title, key]) => ({ key: `g ${key}`, does: title, act: () => go(link(here.run, page)) })),
  ]);
  return (
    <Here.Provider value={here}>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Header here={here} runs={runs} help={() => setHelp(true)} />
      <main id="main" tabIndex={-1}>
        {failure ? <Failed failure={failure} /> : runs ? <Page here={here} runs={runs} /> : <p class="waiting" role="status">Loading …</p>}
      </main>
      {hasHelp && <Help close={() => setHelp(false)} />}
    </Here.Provider>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function openSearch(here: Address): void {
  if (here.page === "search") document.getElementById("search")?.focus();
  else go(link(here.run, "search"));
}

function Header({ here, runs, help }: { here: Address; runs: Runs | null; help: () => void }) {
  const [shown, setShown] = useState(theme());
  const nav = useRef<HTMLElement>(null);
  useEffect(() => nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [here.page, runs]);
  return (
    <header class="top">
      <a class="brand" href={link(here.run, "run")}>
        recompose
      </a>
      {runs && runs.runs.length > 1 && (
        <select class="run-choice" aria-label="run" value={here.run} onChange={(event) => go(link(event.currentTarget.value, "run"))}>
          {runs.runs.map(({ run }) => (
            <option value={run}>{run}</option>
          ))}
        </select>
      )}
      <nav aria-label="pages" ref={nav}>
        {MENU.map(([page, title, , under]) => (
          <a href={link(here.run, page)} aria-current={page === here.page || under.includes(here.page) ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      <span class="tools">
        {runs && isExport() && <span class="faint">export</span>}
        <button onClick={() => setShown(nextTheme())} aria-label={`theme: ${shown}`} title={`theme: ${shown}`}>
          {shown === "dark" ? "☾" : shown === "light" ? "☀" : "◐"}
        </button>
        <button onClick={help} aria-label="keys">
          ?
        </button>
      </span>
    </header>
  );
}

function Page({ here, runs }: { here: Address; runs: Runs }) {
  const { page, run, id } = here;
  if (!runs.runs.some((each) => each.run === run)) return <Failed failure={new Refused(`No run ${run} is open here.`, "")} />;
  const needsId = ["trace", "site", "pair", "hint", "reply", "rollout", "task", "finding", "id"].includes(page);
  const known: Record<string, () => preact.JSX.Element> = {
    run: () => <RunPage />,
    traces: () => <ListPage of="traces" key="traces" />,
    sites: () => <ListPage of="sites" key="sites" />,
    hints: () => <ListPage of="hints" key="hints" />,
    replies: () => <ListPage of="replies" key="replies" />,
    pairs: () => <ListPage of="pairs" key="pairs" />,
    rollouts: () => <RolloutsPage />,
    trace: () => <TracePage />,
    site: () => <SitePage key={id} />,
    pair: () => <PairPage key={id} />,
    hint: () => <HintPage />,
    reply: () => <ReplyPage />,
    rollout: () => <RolloutPage />,
    task: () => <TaskPage />,
    tokens: () => <TokensPage />,
    training: () => <TrainingPage />,
    compare: () => <ComparePage runs={runs.runs} />,
    monitor: () => <MonitorPage />,
    finding: () => <FindingPage />,
    search: () => <SearchPage />,
    id: () => <AnyPage />,
  };
  const shown = Object.hasOwn(known, page) && (id || !needsId) ? known[page] : undefined;
  return shown ? shown() : <Failed failure={new Refused(`There is no page ${encodeURIComponent(page)}${needsId ? " without an id" : ""}.`, "")} />;
}

function Help({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    addEventListener("hashchange", close);
    return () => removeEventListener("hashchange", close);
  }, []);
  const { own, everywhere } = keysNow();
  return (
    <dialog ref={dialog} onClose={close} onClick={close} aria-label="keys">
      {own.length > 0 && <KeyList title="Keys of this page" keys={own} />}
      <KeyList title="Everywhere" keys={everywhere.filter(({ key }) => !key.startsWith("g "))} />
      <KeyList title="Go to" keys={everywhere.filter(({ key }) => key.startsWith("g "))} />
      <button class="more">close</button>
    </dialog>
  );
}

function KeyList({ title, keys }: { title: string; keys: Key[] }) {
  return (
    <>
      <h2>{title}</h2>
      <dl class="keys">
        {keys.map(({ key, does }) => (
          <div>
            <dt>
              {key.split(" ").map((one) => (
                <kbd>{one}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

applyTheme();
listen();
render(<App />, document.getElementById("page")!);
