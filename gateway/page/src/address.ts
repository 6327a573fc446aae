import type { User } from "./session.js";

/** So many devices has the page. */
const PLACES = 2;

/** The devices that an address names, and what of it is not understood: `#1000/pc+1001/mobile`. */
export function devicesOf(hash: string): { users: User[]; problem: string } {
  const parts = hash.slice(1).split("+").filter(Boolean);
  const users: User[] = [];
  const wrong: string[] = [];
  for (const part of parts) {
    const [, uid, cls] = /^([1-9]\d*)\/(pc|mobile)$/.exec(part) ?? [];
    if (uid === undefined) wrong.push(part);
    else users.push({ uid, cls: cls === "mobile" ? cls : "pc" });
  }
  const problem = [
    ...wrong.map((part) => `“${part}” in the address is no device.`),
    ...(wrong.length > 0
      ? ["A device is a user's number and pc or mobile, as in #1000/pc."]
      : []),
    ...users.slice(PLACES).map(({ uid, cls }) => `${uid}/${cls} is left out.`),
    ...(users.length > PLACES ? ["The page has two devices."] : []),
  ].join(" ");
  return { users: users.slice(0, PLACES), problem };
}

/** The address of these devices. */
export function addressOf(users: readonly User[]): string {
  const parts = users.map(({ uid, cls }) => `${uid}/${cls}`);
  return parts.length === 0 ? "/" : `/#${parts.join("+")}`;
}
