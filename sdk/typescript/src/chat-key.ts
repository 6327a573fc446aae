/** Whom a chat is with: `user:1001` or `group:5000`. */
export type ChatKey = `user:${string}` | `group:${string}`;

/**
 * The parts of a key.
 *
 * @throws RangeError for what is none.
 */
export function splitKey(key: ChatKey): ["user" | "group", string] {
  const [, kind, id] = /^(user|group):([1-9]\d*)$/.exec(key) ?? [];
  if ((kind !== "user" && kind !== "group") || id === undefined) {
    throw new RangeError(`a chat is user:<uid> or group:<gid>, not ${key}`);
  }
  return [kind, id];
}
