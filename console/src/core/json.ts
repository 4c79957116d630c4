/** JSON values, the pointers that name places in them (RFC 6901), and patches (RFC 6902) that share what they keep. */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Obj = { [name: string]: Json };

export interface Operation {
  op: "add" | "remove" | "replace";
  path: string;
  value?: Json;
}

export function isObject(value: unknown): value is Obj {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A pointer one step further down. */
export function below(pointer: string, name: string | number): string {
  return `${pointer}/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** The steps of a pointer. */
export function steps(pointer: string): string[] {
  if (pointer === "") return [];
  const found = pointer.slice(1).split("/");
  return pointer.includes("~") ? found.map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~")) : found;
}

/** Whether one of the pointers leads to something within a place. */
export function leadWithin(pointers: Iterable<string>, place: string): boolean {
  for (const each of pointers) if (each.startsWith(`${place}/`)) return true;
  return false;
}

/** The value at a pointer; undefined where there is none. */
export function valueAt(value: Json | undefined, pointer: string): Json | undefined {
  let found: Json | undefined = value;
  for (const step of steps(pointer)) {
    if (Array.isArray(found)) found = found[Number(step)];
    else if (isObject(found) && Object.hasOwn(found, step)) found = found[step];
    else return undefined;
  }
  return found;
}

const OWN: PropertyDescriptor = { writable: true, enumerable: true, configurable: true };

/** Apply one operation; what it does not touch, and what is not among `own`, stays as it is. */
function applied(
  value: Json | undefined,
  path: string[],
  depth: number,
  operation: Operation,
  own: Set<Json[] | Obj>,
): Json {
  if (depth === path.length) return operation.value ?? null;
  const step = path[depth] as string;
  const last = depth === path.length - 1;
  if (Array.isArray(value)) {
    const copy = own.has(value) ? value : value.slice();
    own.add(copy);
    const index = step === "-" ? copy.length : Number(step);
    if (!last) copy[index] = applied(copy[index], path, depth + 1, operation, own);
    else if (operation.op === "remove") copy.splice(index, 1);
    else if (operation.op === "add") copy.splice(index, 0, operation.value ?? null);
    else copy[index] = operation.value ?? null;
    return copy;
  }
  // Spreading is many times faster than any other way to copy an object.
  const copy: Obj = isObject(value) && own.has(value) ? value : isObject(value) ? { ...value } : {};
  own.add(copy);
  if (last && operation.op === "remove") {
    delete copy[step];
    return copy;
  }
  const inner = applied(Object.hasOwn(copy, step) ? copy[step] : undefined, path, depth + 1, operation, own);
  // Names come from payloads: "__proto__" is a name like any other.
  if (step === "__proto__") Object.defineProperty(copy, step, { value: inner, ...OWN });
  else copy[step] = inner;
  return copy;
}

/**
 * Apply a patch; the value given stays as it is, but for what `own` has: copies that nobody else has seen. Those that
 * are made are added, so that a row of patches copies each thing once.
 */
export function apply<T extends Json>(value: T, patch: readonly Operation[], own = new Set<Json[] | Obj>()): T {
  let found: Json = value;
  for (const operation of patch) found = applied(found, steps(operation.path), 0, operation, own);
  return found as T;
}

/** Whether two values are equal. */
export function equal(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((each, index) => equal(each, b[index]));
  }
  if (!isObject(a) || !isObject(b)) return false;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length &&
    names.every((name) => Object.hasOwn(b, name) && equal(a[name], b[name]));
}

/** The pointers of the innermost values in `after` that `before` does not have like that; at most `most` of them. */
export function changed(before: Json | undefined, after: Json | undefined, most = 5000): Set<string> {
  const found = new Set<string>();
  const walk = (old: Json | undefined, now: Json | undefined, pointer: string): void => {
    if (old === now || found.size >= most) return;
    if (isObject(old) && isObject(now)) {
      for (const name of Object.keys(now)) {
        const before = Object.hasOwn(old, name) ? old[name] : undefined;
        // Most of a state stays the same: no pointer is made for that.
        if (before !== now[name]) walk(before, now[name], below(pointer, name));
      }
      for (const name of Object.keys(old)) if (!Object.hasOwn(now, name)) found.add(pointer);
    } else if (Array.isArray(old) && Array.isArray(now)) {
      now.forEach((value, index) => {
        if (old[index] !== value) walk(old[index], value, below(pointer, index));
      });
      if (old.length > now.length) found.add(pointer);
    } else found.add(pointer);
  };
  walk(before, after, "");
  return found;
}
