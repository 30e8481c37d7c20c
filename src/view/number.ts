/** Counts and sizes as people read them. */

const grouped = new Intl.NumberFormat('en-US')

/** `12,345` */
export function number(value: number): string {
  return grouped.format(value)
}

/** `1 GPU`, `8 GPUs`, `2 entries` */
export function count(value: number, noun: string): string {
  return `${number(value)} ${value === 1 ? noun : plural(noun)}`
}

export function plural(noun: string): string {
  if (noun.endsWith('person')) return noun.replace(/person$/, 'people')
  return /[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : `${noun}s`
}

/** `0.1 of 200 GB` */
export function gigabytesOf(used: number, total: number): string {
  return `${number(tenths(used))} of ${number(tenths(total))} GB`
}

function tenths(value: number): number {
  return Math.round(value * 10) / 10
}

/** `323 MB` */
export function megabytes(bytes: number): string {
  return `${number(Math.round(bytes / 1e6))} MB`
}
