// A scroller that holds only the items in view, of any height. What is on top stays on top when heights become known.
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Heights } from "../heights";

export interface Scroller {
  to: (item: number) => void;
  top: () => number;
}

interface Props {
  count: number;
  guess: number;
  label: string;
  render: (item: number) => ComponentChildren;
  onView?: (first: number, last: number, top: number) => void;
  scroller?: RefObject<Scroller>;
  role?: "rowgroup";
  extra?: number;
}

export function Virtual({ count, guess, label, render, onView, scroller, role, extra = 4 }: Props) {
  const outer = useRef<HTMLDivElement>(null);
  const sized = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const heights = useMemo(() => new Heights(count, guess), [count, guess]);
  const [range, setRange] = useState<[number, number]>([0, Math.min(count - 1, 20)]);
  const [, redraw] = useState(0);
  const anchor = useRef({ item: 0, into: 0 });

  const look = () => {
    const element = outer.current;
    if (!element || !count) return;
    const top = heights.at(element.scrollTop);
    anchor.current = { item: top, into: element.scrollTop - heights.top(top) };
    const last = heights.at(element.scrollTop + element.clientHeight);
    const next: [number, number] = [Math.max(0, top - extra), Math.min(count - 1, last + extra)];
    setRange((now) => (now[0] === next[0] && now[1] === next[1] ? now : next));
    onView?.(top, last, element.scrollTop);
  };

  const measure = () => {
    const [element, list] = [outer.current, inner.current];
    if (!element || !list) return;
    const { item, into } = anchor.current;
    let isChanged = false;
    for (const child of list.children as HTMLCollectionOf<HTMLElement>) {
      isChanged = heights.set(Number(child.dataset.item), child.offsetHeight) || isChanged;
    }
    if (!isChanged) return;
    // At once, so that nothing is drawn, and no scroll event comes, with new heights at the old place.
    if (sized.current) sized.current.style.height = `${heights.top(count)}px`;
    list.style.transform = `translateY(${heights.top(Number((list.firstElementChild as HTMLElement).dataset.item))}px)`;
    const wanted = heights.top(item) + into;
    if (Math.abs(element.scrollTop - wanted) > 1) element.scrollTop = wanted;
    redraw((n) => n + 1);
    look();
  };

  useLayoutEffect(measure);
  useLayoutEffect(look, [heights]);
  useEffect(() => {
    const watcher = new ResizeObserver(() => {
      measure();
      look();
    });
    if (inner.current) watcher.observe(inner.current);
    if (outer.current) watcher.observe(outer.current);
    return () => watcher.disconnect();
  }, [heights]);

  if (scroller) {
    scroller.current = {
      top: () => anchor.current.item,
      to: (item) => {
        anchor.current = { item, into: 0 };
        outer.current?.scrollTo({ top: heights.top(item) });
        look();
      },
    };
  }
  const [first, last] = [Math.min(range[0], Math.max(0, count - 1)), Math.min(range[1], count - 1)];
  const items = [];
  for (let item = first; item <= last; item++) {
    items.push(
      <div key={item} data-item={item} role={role ? "presentation" : undefined}>
        {render(item)}
      </div>,
    );
  }
  return (
    <div class="scroller" ref={outer} onScroll={look} tabIndex={0} role={role ?? "region"} aria-label={label}>
      <div class="scrolled" ref={sized} style={{ height: `${heights.top(count)}px` }}>
        <div ref={inner} style={{ transform: `translateY(${heights.top(first)}px)` }}>
          {items}
        </div>
      </div>
    </div>
  );
}
