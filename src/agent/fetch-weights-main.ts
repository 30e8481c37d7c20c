/**
 * A program of the image `berth/engine`: the init container of pods with weights.
 *
 *   fetch-weights.mjs /.berth/weights.json [--shared]
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { systemClock } from '../base/instant.ts'
import { podWeights, SHARED_FLAG } from '../contract/pod-weights.ts'
import { fetchWeights } from './fetch-weights.ts'
import { fetchSharedWeights } from './shared-weights.ts'

/** Kubernetes shows its text as the reason of a failure. */
const TERMINATION_LOG = '/dev/termination-log'

const stopping = new AbortController()
process.once('SIGTERM', () => stopping.abort())
const order = podWeights.parse(JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')))
const write = (line: string): void => void process.stdout.write(`${line}\n`)
const options = { write, signal: stopping.signal }
const result = process.argv.includes(SHARED_FLAG)
  ? await fetchSharedWeights(order, { ...options, clock: systemClock })
  : await fetchWeights(order, options)
if (!result.ok) {
  process.stderr.write(`${result.message}\n`)
  writeFileSync(TERMINATION_LOG, result.message)
  process.exitCode = 1
}
