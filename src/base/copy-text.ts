/** Values in the text format of PostgreSQL's COPY: fields end at a tab, rows at a newline. */

export const COPY_NULL = String.raw`\N`

const special = /[\\\t\n\r]/
const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }
const originals: Readonly<Record<string, string>> = { '\\\\': '\\', '\\t': '\t', '\\n': '\n', '\\r': '\r' }

export function copyField(value: string | null): string {
  if (value === null) return COPY_NULL
  return special.test(value) ? value.replaceAll(/[\\\t\n\r]/g, (char) => escapes[char] ?? char) : value
}

/** The value that `copyField` was given. */
export function readCopyField(field: string): string | null {
  if (field === COPY_NULL) return null
  return field.includes('\\') ? field.replaceAll(/\\[\\tnr]/g, (escape) => originals[escape] ?? escape) : field
}
