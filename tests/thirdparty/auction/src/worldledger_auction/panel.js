// An auction: its lots, one a line.

export const version = 1;

export function panel(element, frames, cursor) {
  const list = document.createElement("ol");
  element.append(list);
  const show = () => {
    const frame = frames.at(cursor.seq);
    if (frame === undefined) return; // it is being loaded
    list.replaceChildren(...Object.values(frame.state.entities).map(({ title, status, price }) => {
      const line = document.createElement("li");
      line.textContent = `${title ?? "untitled"}: ${status}${price === null ? "" : ` at ${price}`}`;
      return line;
    }));
  };
  const ends = [cursor.subscribe(show), frames.subscribe(show)];
  show();
  return () => ends.forEach((end) => end());
}
