/** A strict parser of the Prometheus text format 0.0.4: anything a scraper might reject is an error. */

export interface ParsedMetrics {
  readonly types: ReadonlyMap<string, string>
  /** Counters and histograms by name and labels as written. */
  readonly counters: ReadonlyMap<string, number>
  /** The largest sample of that name. */
  value(name: string): number | undefined
}

const SAMPLE =
  /^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*\})? (-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf|NaN))$/

export function parseMetrics(text: string): ParsedMetrics {
  if (!text.endsWith('\n')) throw new Error('the last line does not end')
  const types = new Map<string, string>()
  const helped = new Set<string>()
  const counters = new Map<string, number>()
  const samples = new Map<string, number>()
  let family = ''
  for (const line of text.slice(0, -1).split('\n')) {
    const [, word, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? []
    if (word === 'HELP') {
      if (helped.has(name)) throw new Error(`second HELP: ${line}`)
      helped.add(name)
    } else if (word === 'TYPE') {
      if (types.has(name) || !helped.has(name)) throw new Error(`TYPE twice or without HELP: ${line}`)
      if (!['counter', 'gauge', 'histogram'].includes(rest)) throw new Error(`unknown type: ${line}`)
      if ((rest === 'counter') !== name.endsWith('_total')) throw new Error(`counters end in _total: ${line}`)
      types.set(name, rest)
      family = name
    } else readSample(line)
  }
  return {
    types,
    counters,
    value: (name) => {
      const found = [...samples].filter(([series]) => series.split('{')[0] === name).map(([, value]) => value)
      return found.length === 0 ? undefined : Math.max(...found)
    },
  }

  function readSample(line: string): void {
    const [, name = '', labels = '', value = ''] = SAMPLE.exec(line) ?? []
    if (name === '') throw new Error(`not a sample: ${line}`)
    const type = types.get(family)
    const base = type === 'histogram' ? name.replace(/_(bucket|sum|count)$/, '') : name
    if (base !== family) throw new Error(`outside of its family ${family}: ${line}`)
    if (samples.has(name + labels)) throw new Error(`twice: ${line}`)
    samples.set(name + labels, Number(value))
    if (type !== 'gauge') counters.set(name + labels, Number(value))
    if (type !== 'gauge' && !(Number(value) >= 0)) throw new Error(`a counter below zero: ${line}`)
  }
}
