/** A bearer token, or a function that returns one. */
export type TokenSource = string | (() => string | Promise<string>);

/** Throws a `TypeError` for what is no object, or has a name that is none of these: it is misspelt. */
export function checkNames(what: string, given: object, names: object): void {
  const known = Object.keys(names).join(", ");
  if (typeof given !== "object" || given === null) {
    throw new TypeError(`${what} must be an object with ${known}`);
  }
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(names, name)) {
      throw new TypeError(`there is no ${what}.${name}, but ${known}`);
    }
  }
}

/** The token to authenticate with now. Throws a `TypeError` for what is none. */
export async function askToken(
  source: TokenSource | undefined,
): Promise<string | undefined> {
  if (source === undefined) return undefined;
  return checkToken(typeof source === "function" ? await source() : source);
}

export function checkToken(token: unknown): string {
  // RFC 6750.
  if (typeof token !== "string" || !/^[\w.~+/-]+=*$/.test(token)) {
    throw new TypeError(
      "token must be a bearer token (A-Z, a-z, 0-9 and -._~+/, then =), or a function that returns one",
    );
  }
  return token;
}

/**
 * A URL without a slash at its end.
 *
 * @throws RangeError for what is no URL of this scheme, or its secure one, that a path can be added to.
 */
export function baseUrl(
  name: string,
  scheme: "http" | "ws",
  text: string,
): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isBase =
    url !== null &&
    [`${scheme}:`, `${scheme}s:`].includes(url.protocol) &&
    url.username + url.password + url.search + url.hash === "";
  if (!isBase) {
    throw new RangeError(
      `${name} must be like ${scheme}://127.0.0.1:${scheme === "ws" ? 7308 : 7302}, not ${text}`,
    );
  }
  return (url.origin + url.pathname).replace(/\/+$/, "");
}
