import { describe, expect, test } from 'vitest'
import { Metrics } from './metrics.ts'

async function linesOf(metrics: Metrics): Promise<string[]> {
  return (await metrics.text()).split('\n')
}

test('counts per set of labels', async () => {
  const metrics = new Metrics()
  const requests = metrics.counter('requests_total', 'Requests')
  requests.add()
  requests.add({ status: '200' })
  requests.add({ status: '200' }, 4)
  expect(await linesOf(metrics)).toEqual([
    '# HELP requests_total Requests',
    '# TYPE requests_total counter',
    'requests_total 1',
    'requests_total{status="200"} 5',
    '',
  ])
})

test('a gauge shows its last value', async () => {
  const metrics = new Metrics()
  const rentals = metrics.gauge('rentals', 'Rentals')
  rentals.set(7, { status: 'Running' })
  rentals.set(3, { status: 'Running' })
  expect(await linesOf(metrics)).toContain('rentals{status="Running"} 3')
})

test('a histogram counts cumulative buckets and the sum', async () => {
  const metrics = new Metrics()
  const seconds = metrics.histogram('seconds', 'Time', [0.1, 1])
  for (const value of [0.1, 0.5, 7]) seconds.observe(value, { path: '/' })
  expect((await linesOf(metrics)).slice(2)).toEqual([
    'seconds_bucket{path="/",le="0.1"} 1',
    'seconds_bucket{path="/",le="1"} 2',
    'seconds_bucket{path="/",le="+Inf"} 3',
    'seconds_sum{path="/"} 7.6',
    'seconds_count{path="/"} 3',
    '',
  ])
})

test('runs collectors before each scrape', async () => {
  const metrics = new Metrics()
  const gauge = metrics.gauge('asked', 'Times')
  let times = 0
  metrics.collect(async () => gauge.set((times += 1)))
  await metrics.text()
  expect(await linesOf(metrics)).toContain('asked 2')
})

test('a collector can drop the series of what is gone', async () => {
  const metrics = new Metrics()
  const busy = metrics.gauge('busy', 'Busy')
  busy.set(1, { of: 'a' })
  busy.clear()
  busy.set(2, { of: 'b' })
  expect((await linesOf(metrics)).filter((line) => line.startsWith('busy'))).toEqual(['busy{of="b"} 2'])
})

test('adds the values of other processes to its own, series by series', async () => {
  const make = (count: number, lag: number): Metrics => {
    const metrics = new Metrics()
    metrics.counter('calls_total', 'Calls').add({ model: count > 2 ? 'b' : 'a' }, count)
    metrics.gauge('lag', 'Seconds', 'max').set(lag)
    metrics.histogram('seconds', 'Time', [1]).observe(lag)
    return metrics
  }
  const metrics = make(2, 0.5)
  const others = [make(1, 2), make(3, 1)]
  metrics.include(() => Promise.all(others.map((other) => other.text())))
  expect((await linesOf(metrics)).filter((line) => !line.startsWith('#'))).toEqual([
    'calls_total{model="a"} 3',
    'calls_total{model="b"} 3',
    'lag 2',
    'seconds_bucket{le="1"} 2',
    'seconds_bucket{le="+Inf"} 3',
    'seconds_sum 3.5',
    'seconds_count 3',
    '',
  ])
})

describe('input that would break the format', () => {
  test('is escaped in a label', async () => {
    const metrics = new Metrics()
    metrics.counter('odd_total', 'Odd').add({ text: 'a"b\\c\nd' })
    expect(await linesOf(metrics)).toContain('odd_total{text="a\\"b\\\\c\\nd"} 1')
  })

  test('such as a second declaration of a name is rejected', () => {
    const metrics = new Metrics()
    metrics.counter('twice_total', 'Once')
    expect(() => metrics.counter('twice_total', 'Again')).toThrow('metric declared twice: twice_total')
  })
})
