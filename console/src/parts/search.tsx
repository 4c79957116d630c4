/** A field that is searched by as one types: the address follows a moment after the last key. */

import type { Ref } from "preact";
import { useRef } from "preact/hooks";

interface Props {
  label: string;
  placeholder: string;
  value: string;
  /** Milliseconds after the last key. */
  delay: number;
  onTyped: (text: string) => void;
  field?: Ref<HTMLInputElement>;
}

export function SearchField({ label, placeholder, value, delay, onTyped, field }: Props) {
  const waiting = useRef<number | undefined>(undefined);
  return (
    <input
      ref={field}
      type="search"
      id="search"
      aria-label={label}
      placeholder={placeholder}
      value={value}
      onInput={({ currentTarget }) => {
        clearTimeout(waiting.current);
        waiting.current = setTimeout(() => onTyped(currentTarget.value), delay);
      }}
    />
  );
}
