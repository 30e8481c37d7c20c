/** The page to open after a sign-in. It comes from a URL that anybody can write, so it must lead to this server only. */

const MAX_CHARS = 2_048
const HOME = '/'

/** Returns the path, or `/` where it could lead elsewhere in any browser. */
export function localPath(text: string | undefined): string {
  if (text === undefined || text.length > MAX_CHARS || !isPlain(text)) return HOME
  const decoded = decode(text)
  return decoded !== undefined && isPlain(decoded) && isPlain(resolve(text)) ? text : HOME
}

/** The path without dots: `/.//x` and `/a/..//x` become `//x`. */
function resolve(text: string): string {
  return new URL(text, 'http://localhost').pathname
}

/** Browsers read `/\x` and `/<tab>/x` as `//x`, which is another host. */
function isPlain(path: string): boolean {
  // oxlint-disable-next-line no-control-regex
  return /^\/(?!\/)[^\\\u0000-\u0020\u007f-\u009f]*$/.test(path)
}

/** The path without its query, in which an encoded character has no meaning. undefined: it is not well-formed. */
function decode(text: string): string | undefined {
  const [path = ''] = text.split(/[?#]/, 1)
  try {
    return decodeURIComponent(path)
  } catch {
    return undefined
  }
}
