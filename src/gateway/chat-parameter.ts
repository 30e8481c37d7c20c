/**
 * The parameters of a chat request that can be waved through without the schema: a table of what is plainly right. A
 * request with anything else takes the careful way, where the contract's schema gives the error its words.
 */

const orNull = (check: (value: unknown) => boolean) => (value: unknown) => value === null || check(value)
const between = (least: number, most: number) =>
  orNull((value) => typeof value === 'number' && value >= least && value <= most)
const wholeBetween = (least: number, most: number) =>
  orNull((value) => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most)
const isText = (value: unknown): boolean => typeof value === 'string'
const isBoolean = orNull((value) => typeof value === 'boolean')
const isNamed = (value: unknown): boolean => typeof value === 'string' && value.length >= 1 && value.length <= 200

const plain = new Map<string, (value: unknown) => boolean>(
  Object.entries({
    messages: () => true,
    model: isNamed,
    frequency_penalty: between(0, 1),
    presence_penalty: between(0, 1),
    temperature: between(0, 2),
    top_p: between(0, 1),
    min_p: between(0, 1),
    repetition_penalty: (value) => typeof value === 'number' && value > 0 && value <= 10,
    max_tokens: wholeBetween(1, Number.MAX_SAFE_INTEGER),
    n: wholeBetween(1, 128),
    seed: wholeBetween(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    top_k: wholeBetween(-1, Number.MAX_SAFE_INTEGER),
    stream: isBoolean,
    user: orNull(isText),
    stop: orNull((value) => isText(value) || (Array.isArray(value) && value.length <= 16 && value.every(isText))),
    stream_options: orNull(
      (value) =>
        typeof value === 'object' &&
        Object.entries(value as object).every(([name, flag]) => name === 'include_usage' && typeof flag === 'boolean'),
    ),
  }),
)

export function isPlainChat(head: Readonly<Record<string, unknown>>): boolean {
  for (const name in head) {
    const check = plain.get(name)
    if (check === undefined || !check(head[name])) return false
  }
  return true
}
