/** The objects of the simulator of Stripe, as its API shows them: only the fields that a client of Berth's kind reads. */

export interface Json {
  [key: string]: unknown
}

/** `before`: 500, and nothing happened. `after`: it happened, and the connection breaks. `refuse`: 400. */
export type StripeFault = 'before' | 'after' | 'refuse'

export interface StripeCall {
  readonly method: string
  readonly path: string
  readonly params: Json
  /** As it was sent. */
  readonly text: string
  readonly key: string | null
  readonly version: string
}

export interface Card {
  readonly number: string
  readonly brand: string
}

/** A number that is charged, one that is declined, and one whose bank asks its owner each time. */
export const cards = {
  good: { number: '4242424242424242', brand: 'visa' },
  other: { number: '5555555555554444', brand: 'mastercard' },
  declined: { number: '4000000000000002', brand: 'visa' },
  asks: { number: '4000002760003184', brand: 'visa' },
} as const satisfies Readonly<Record<string, Card>>

/** `a[b][0]=c` as nested objects, as Stripe reads forms. */
export function parseForm(text: string): Json {
  const root: Json = {}
  for (const [name, value] of new URLSearchParams(text)) {
    const path = name.replaceAll(']', '').split('[')
    let at: Json = root
    for (const [n, part] of path.entries()) {
      const key = part === '' ? String(Object.keys(at).length) : part
      if (n === path.length - 1) at[key] = value
      else at = (at[key] ??= {}) as Json
    }
  }
  return root
}

/** Lists are objects with the keys 0, 1, … */
export function listOf(value: unknown): unknown[] {
  return value === undefined ? [] : Object.values(value as object)
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

export function numberOf(value: unknown): number {
  return Number(textOf(value) ?? value)
}

/** Replaces ids by objects where `expand[]` names them, such as `payment_intent.latest_charge`. */
export function expandObject(object: Json, paths: readonly string[], find: (id: string) => Json | undefined): Json {
  const copy: Json = { ...object }
  for (const path of paths) {
    const [first = '', ...rest] = path.split('.')
    const target = typeof copy[first] === 'string' ? find(copy[first]) : (copy[first] as Json | undefined)
    if (target === undefined || target === null) continue
    copy[first] = rest.length === 0 ? target : expandObject(target, [rest.join('.')], find)
  }
  return copy
}

export function failure(type: string, code: string | null, message: string): Json {
  return { error: { type, ...(code === null ? {} : { code }), message } }
}

/** A page of a list, newest first. */
export function pageOf(newest: readonly Json[], noun: string, params: Json): Json {
  const after = textOf(params['starting_after'])
  const from = after === null ? 0 : newest.findIndex(({ id }) => id === after) + 1
  const limit = numberOf(params['limit'] ?? 10)
  const data = newest.slice(from, from + limit)
  return { object: 'list', url: `/v1/${noun}`, data, has_more: newest.length > from + limit }
}
