/** Counts and sizes as people read them. */

const grouped = new Intl.NumberFormat('en-US')

/** `12,345` */
export function number(value: number): string {
  return grouped.format(value)
}

/** `1 GPU`, `8 GPUs` */
export function count(value: number, noun: string): string {
  return `${number(value)} ${noun}${value === 1 ? '' : 's'}`
}

/** `323 MB` */
export function megabytes(bytes: number): string {
  return `${number(Math.round(bytes / 1e6))} MB`
}
