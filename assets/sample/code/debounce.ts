import { setTimeout as wait } from "node:timers/promises";

/** Collects calls and runs the action once, after a pause of the given milliseconds. */
export function debounce<T>(action: (last: T) => void, pause: number): (value: T) => Promise<void> {
  let latest = 0;
  return async (value) => {
    const mine = ++latest;
    await wait(pause);
    if (mine === latest) action(value);
  };
}
