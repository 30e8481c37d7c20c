/** Counts and sizes as people read them. */

/** Made when it is needed: it takes 10 ms, and most numbers in a command's output are small. */
let grouped: Intl.NumberFormat | undefined

/** `12,345` */
export function number(value: number): string {
  if (Number.isInteger(value) && value > 0 && value < 1_000) return String(value)
  grouped ??= new Intl.NumberFormat('en-US')
  return grouped.format(value)
}

/** `1 GPU`, `8 GPUs`, `2 entries` */
export function count(value: number, noun: string): string {
  return `${number(value)} ${value === 1 ? noun : plural(noun)}`
}

export function plural(noun: string): string {
  if (noun.endsWith('person')) return noun.replace(/person$/, 'people')
  if (noun.endsWith('ch')) return `${noun}es`
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

const sizes = [
  ['GB', 1e9],
  ['MB', 1e6],
  ['KB', 1e3],
] as const

/** `512 bytes`, `1.3 KB`, `200 MB` */
export function fileSize(bytes: number): string {
  const [unit, size] = sizes.find(([, least]) => bytes >= least) ?? []
  return unit === undefined ? count(bytes, 'byte') : `${number(tenths(bytes / size))} ${unit}`
}
