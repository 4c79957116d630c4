// The sandbox: the messages up to the cursor. What has a position is on the console's own map.

/**
 * @import { Cursor, Frames, Tools } from "../../../../console/src/core/panel.ts"
 */

export const version = 1;

/** @param {HTMLElement} element @param {Frames} frames @param {Cursor} cursor @param {Tools} tools */
export function panel(element, frames, cursor, tools) {
  return tools.feed(element, frames, cursor, "Speak", "SpeakResponse", "MessageEmitted");
}
