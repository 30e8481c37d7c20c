/**
 * Counters, gauges and histograms in Prometheus text format. A metric is declared once, by name; labels come from a
 * small closed set (never from customers' text), so memory is bounded.
 */

type Labels = Readonly<Record<string, string>>

interface Metric {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  /** How values of several processes are combined. */
  readonly across: 'sum' | 'max'
  lines(): string[]
}

export interface Counter {
  add(labels?: Labels, amount?: number): void
  /** Returns the counter for one set of labels, which is then formatted only once. */
  bind(labels: Labels): (amount?: number) => void
}

/** A counter that is kept elsewhere and read at each scrape. It decreases only when its source restarts. */
export interface ReadCounter {
  set(value: number, labels?: Labels): void
  /** Drops all series. A collector that sets only the series of existing things calls it first. */
  clear(): void
}

export interface Gauge {
  set(value: number, labels?: Labels): void
  clear(): void
}

export interface Histogram {
  observe(value: number, labels?: Labels): void
  bind(labels: Labels): (value: number) => void
}

export class Metrics {
  readonly #metrics = new Map<string, Metric>()
  readonly #collectors: Array<() => void | Promise<void>> = []
  readonly #sources: Array<() => Promise<readonly string[]>> = []
  #missing: Counter | undefined

  counter(name: string, help: string): Counter {
    const values = new Map<string, number>()
    this.#register({ name, help, type: 'counter', across: 'sum', lines: () => sampleLines(name, values) })
    const addTo = (key: string, amount: number): void => void values.set(key, (values.get(key) ?? 0) + amount)
    return {
      add: (labels = {}, amount = 1) => addTo(formatLabels(labels), amount),
      bind: (labels) => {
        const key = formatLabels(labels)
        return (amount = 1) => addTo(key, amount)
      },
    }
  }

  readCounter(name: string, help: string): ReadCounter {
    const values = new Map<string, number>()
    this.#register({ name, help, type: 'counter', across: 'sum', lines: () => sampleLines(name, values) })
    return settable(values)
  }

  gauge(name: string, help: string, across: Metric['across'] = 'sum'): Gauge {
    const values = new Map<string, number>()
    this.#register({ name, help, type: 'gauge', across, lines: () => sampleLines(name, values) })
    return settable(values)
  }

  histogram(name: string, help: string, buckets: readonly number[]): Histogram {
    const series = new Map<string, { labels: Labels; counts: number[]; sum: number; count: number }>()
    const lines = (): string[] =>
      [...series.values()].flatMap(({ labels, counts, sum, count }) => [
        ...buckets.map((le, i) => `${name}_bucket${formatLabels({ ...labels, le: String(le) })} ${counts[i] ?? 0}`),
        `${name}_bucket${formatLabels({ ...labels, le: '+Inf' })} ${count}`,
        `${name}_sum${formatLabels(labels)} ${sum}`,
        `${name}_count${formatLabels(labels)} ${count}`,
      ])
    this.#register({ name, help, type: 'histogram', across: 'sum', lines })
    const bind = (labels: Labels): ((value: number) => void) => {
      const key = formatLabels(labels)
      const one = series.get(key) ?? { labels, counts: buckets.map(() => 0), sum: 0, count: 0 }
      series.set(key, one)
      return (value) => {
        // Buckets are cumulative: the smallest that fits and all larger ones count.
        for (let i = buckets.length - 1; i >= 0 && value <= (buckets[i] ?? 0); i--)
          one.counts[i] = (one.counts[i] ?? 0) + 1
        one.sum += value
        one.count += 1
      }
    }
    return { observe: (value, labels = {}) => bind(labels)(value), bind }
  }

  /** Runs before each scrape, for gauges that are cheaper to query than to maintain. */
  collect(collector: () => void | Promise<void>): void {
    this.#collectors.push(collector)
  }

  /** Merges metrics of other processes, given as text, into the metrics of the same names here. */
  include(source: () => Promise<readonly string[]>): void {
    this.#sources.push(source)
  }

  async text(): Promise<string> {
    for (const collector of this.#collectors) {
      try {
        await collector()
      } catch {
        // Without the database the other metrics are still useful; the counter shows that some are missing.
        this.#missing ??= this.counter('berth_scrape_errors_total', 'Parts of a scrape that could not be read')
        this.#missing.add()
      }
    }
    const others = (await Promise.all(this.#sources.map((source) => source()))).flat()
    return [...this.#metrics.values()]
      .flatMap((metric) => [
        `# HELP ${metric.name} ${metric.help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}`,
        `# TYPE ${metric.name} ${metric.type}`,
        ...(others.length === 0 ? metric.lines() : combined(metric, others)),
      ])
      .join('\n')
      .concat('\n')
  }

  #register(metric: Metric): void {
    // A scraper that validates names would reject the whole response.
    if (!/^[a-zA-Z_:][a-zA-Z0-9_:]*$/.test(metric.name)) throw new Error(`not a metric name: ${metric.name}`)
    if ((metric.type === 'counter') !== metric.name.endsWith('_total'))
      throw new Error(`counters, and only they, end in _total: ${metric.name}`)
    if (this.#metrics.has(metric.name)) throw new Error(`metric declared twice: ${metric.name}`)
    this.#metrics.set(metric.name, metric)
  }
}

function settable(values: Map<string, number>): Gauge {
  return {
    set: (value, labels = {}) => void values.set(formatLabels(labels), value),
    clear: () => values.clear(),
  }
}

/** The lines of a metric after merging those of other processes: values of equal series are combined. */
function combined(metric: Metric, others: readonly string[]): string[] {
  const { name, type, across } = metric
  const values = new Map<string, number>()
  const names = type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name]
  const isOurs = (line: string): boolean =>
    names.some((one) => line.startsWith(`${one}{`) || line.startsWith(`${one} `))
  for (const line of [...metric.lines(), ...others.flatMap((text) => text.split('\n').filter(isOurs))]) {
    const end = line.lastIndexOf(' ')
    const series = line.slice(0, end)
    const value = Number(line.slice(end + 1))
    const before = values.get(series)
    values.set(series, before === undefined ? value : across === 'sum' ? before + value : Math.max(before, value))
  }
  return [...values].map(([series, value]) => `${series} ${value}`)
}

function sampleLines(name: string, values: ReadonlyMap<string, number>): string[] {
  return [...values].map(([labels, value]) => `${name}${labels} ${value}`)
}

function formatLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
