/** A random UUID (version 4). `crypto.randomUUID` is missing on pages without https. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"));
  const ends = [4, 6, 8, 10, 16];
  return ends
    .map((end, i) => hex.slice(ends[i - 1] ?? 0, end).join(""))
    .join("-");
}
