/** Search parameters of pages: what is not valid is ignored. Written out, since schemas would load with every page. */

const TEXT_CHARS = 255

type Field<T> = (value: unknown) => T | undefined
type Fields = Readonly<Record<string, Field<unknown>>>

export type SearchOf<Given extends Fields> = { [name in keyof Given]?: ReturnType<Given[name]> }
/** Reads the parameters of one page. */
export type SearchReader<Search = object> = (given: Readonly<Record<string, unknown>>) => Search

export function searchReader<Given extends Fields>(fields: Given): SearchReader<SearchOf<Given>> {
  return (params) => {
    const read = Object.entries(fields).map(([name, field]) => [name, field(params[name])] as const)
    return Object.fromEntries(read.filter(([, value]) => value !== undefined)) as SearchOf<Given>
  }
}

/** The router reads a text of digits as a number. */
export const text: Field<string> = (value) => {
  if (typeof value === 'number') return String(value)
  return typeof value === 'string' && value !== '' && value.length <= TEXT_CHARS ? value : undefined
}

export const flag: Field<boolean> = (value) => (typeof value === 'boolean' ? value : undefined)

export function oneOf<const T extends string>(choices: readonly T[]): Field<T> {
  return (value) => choices.find((choice) => choice === value)
}

export function amount(min: number, max: number): Field<number> {
  return (value) => (typeof value === 'number' && value >= min && value <= max ? value : undefined)
}

export function count(max: number): Field<number> {
  return (value) => (Number.isInteger(value) ? amount(1, max)(value) : undefined)
}

export function matching(pattern: RegExp): Field<string> {
  return (value) => (typeof value === 'string' && pattern.test(value) ? value : undefined)
}

/** A day of the calendar, UTC. */
export const day: Field<string> = (value) => {
  const isDay = typeof value === 'string' && /^\d{4}-\d\d-\d\d$/.test(value)
  return isDay && new Date(value).toJSON()?.startsWith(value) ? value : undefined
}
