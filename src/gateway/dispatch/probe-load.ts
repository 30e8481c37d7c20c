/** The load of an engine, from the metrics of known engines. */
import type { Load } from './routing-target.ts'

const running = new Set([
  'vllm:num_requests_running',
  'llamacpp:requests_processing',
  'sglang:num_running_reqs',
  'tgi_batch_current_size',
  'berth_engine_requests_processing',
])
const waiting = new Set([
  'vllm:num_requests_waiting',
  'llamacpp:requests_deferred',
  'sglang:num_queue_reqs',
  'tgi_queue_size',
  'berth_engine_requests_deferred',
])

const SAMPLE = /^([A-Za-z_:][\w:]*)(?:\{.*\})?[ \t]+([0-9.eE+-]+)/

/** undefined: not in the metrics. An engine with several ranks has a line for each. */
export function parseLoad(metrics: string): Load | undefined {
  const load = { running: 0, waiting: 0 }
  let isKnown = false
  for (const line of metrics.split('\n')) {
    const [, name = '', value = ''] = SAMPLE.exec(line) ?? []
    const count = Number(value)
    if (value === '' || !Number.isFinite(count) || count < 0) continue
    if (running.has(name)) load.running += count
    else if (waiting.has(name)) load.waiting += count
    else continue
    isKnown = true
  }
  return isKnown ? load : undefined
}
