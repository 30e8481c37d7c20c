/** `npm run bench` runs all benches, `npm run bench -- NAME…` some; the table goes to stdout and bench/results/. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import { affinity } from './affinity.ts'
import { claims } from './claims.ts'
import { cluster } from './cluster.ts'
import { coldStart } from './cold-start.ts'
import { events } from './events/events.ts'
import { gatewayDoors } from './gateway/doors.ts'
import { gatewayLatency } from './gateway/latency.ts'
import { gatewayLongPrompt } from './gateway/long-prompt.ts'
import { meter } from './gateway/meter.ts'
import { gatewayPlain } from './gateway/plain.ts'
import { soak } from './gateway/soak.ts'
import { gatewayStream } from './gateway/stream.ts'
import { gatewayWorkers } from './gateway/workers.ts'
import type { Bench, Figure } from './harness.ts'
import { history } from './history/history.ts'
import { listing } from './listing.ts'
import { metrics } from './metrics.ts'
import { rentalOptions } from './rental-options.ts'
import { rentals } from './rentals.ts'
import { serving } from './serving/serving.ts'

const usual: readonly Bench[] = [
  coldStart,
  claims,
  listing,
  rentalOptions,
  rentals,
  metrics,
  history,
  events,
  gatewayPlain,
  gatewayStream,
  gatewayDoors,
  gatewayLatency,
  gatewayWorkers,
  gatewayLongPrompt,
  meter,
  affinity,
]
/** Includes those that only run by name. */
const all: readonly Bench[] = [...usual, soak, cluster, serving]

const wanted = process.argv.slice(2).filter((arg) => !arg.startsWith('-'))
if (process.argv.includes('--help')) {
  console.log(
    `Usage: npm run bench [-- NAME…]\n\n${all.map((bench) => `  ${bench.name.padEnd(20)} ${bench.about}`).join('\n')}`,
  )
  process.exit(0)
}
const unknown = wanted.filter((name) => !all.some((bench) => bench.name === name))
if (unknown.length > 0) {
  console.error(`There is no bench ${unknown.join(', ')}; there are ${all.map((bench) => bench.name).join(', ')}`)
  process.exit(2)
}

const machine = `${os.cpus().length} × ${os.cpus()[0]?.model ?? os.arch()}, ${Math.round(os.totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}`
const git = spawnSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' })
const commit = git.status === 0 ? git.stdout.trim() : 'unknown'
const results: Array<{ bench: string; figures: Figure[] }> = []
for (const bench of wanted.length === 0 ? usual : all.filter((one) => wanted.includes(one.name))) {
  console.error(`${bench.name}: ${bench.about} …`)
  const figures = await bench.run()
  for (const { name, value, unit } of figures) console.error(`  ${name}: ${format(value)} ${unit}`)
  results.push({ bench: bench.name, figures })
}

const rows = results.flatMap(({ bench, figures }) =>
  figures.map((figure) => [bench, figure.name, `${format(figure.value)} ${figure.unit}`, figure.against ?? '']),
)
const header = ['bench', 'figure', 'value', 'against']
const widths = header.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)))
const line = (row: readonly string[]): string => `| ${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |`
const table = [line(header), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...rows.map(line)].join(
  '\n',
)
console.log(`\n${machine}, commit ${commit}\n\n${table}`)
mkdirSync('bench/results', { recursive: true })
writeFileSync(`bench/results/${commit}.json`, `${JSON.stringify({ machine, commit, results }, null, 2)}\n`)

function format(value: number): string {
  if (Number.isNaN(value)) return '—'
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3)
}
