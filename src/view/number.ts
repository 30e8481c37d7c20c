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

/** `323 MB` */
export function megabytes(bytes: number): string {
  return `${number(Math.round(bytes / 1e6))} MB`
}
