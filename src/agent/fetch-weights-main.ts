/**
 * A program of the image `berth/engine`: the init container of pods with weights.
 *
 *   fetch-weights.mjs /.berth/weights.json
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { podWeights } from '../contract/pod-weights.ts'
import { fetchWeights } from './fetch-weights.ts'

/** Kubernetes shows its text as the reason of a failure. */
const TERMINATION_LOG = '/dev/termination-log'

const stopping = new AbortController()
process.once('SIGTERM', () => stopping.abort())
const order = podWeights.parse(JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')))
const write = (line: string): void => void process.stdout.write(`${line}\n`)
const got = await fetchWeights(order, { write, signal: stopping.signal })
if (!got.ok) {
  process.stderr.write(`${got.message}\n`)
  writeFileSync(TERMINATION_LOG, got.message)
  process.exitCode = 1
}
