/** Differences between what was asked of the payment processor and what it has, for operators. */

/** undefined: they are equal. */
export function compare(what: string, actual: unknown, expected: unknown): string | undefined {
  return actual === expected ? undefined : `${what} is ${String(actual)}, not ${String(expected)}`
}
