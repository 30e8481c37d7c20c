/**
 * Reads the state of an engine from the metrics of known engines. Names are compared whole, so that a breakdown of a
 * count is not added to it. An engine with several ranks has a line for each: counts are added up, and the fullest cache
 * counts.
 */
import type { EngineLoad } from '../../domain/admission-limit.ts'

export type EngineName = 'vllm' | 'sglang' | 'llama' | 'trtllm' | 'lmdeploy' | 'tgi' | 'tei' | 'berth'

export interface EngineMetrics {
  readonly engine: EngineName
  readonly load: EngineLoad
  /** Tokens that the KV cache holds. null: unknown. */
  readonly kvTokens: number | null
  /** The adapters in use. null: the engine does not say. */
  readonly adapters: ReadonlySet<string> | null
}

type Figure = 'running' | 'waiting' | 'waitingByReason' | 'kvShare' | 'preemptions' | 'cacheConfig' | 'adapters'

const figures = new Map<string, readonly [engine: EngineName, figure: Figure]>([
  ['vllm:num_requests_running', ['vllm', 'running']],
  ['vllm:num_requests_waiting', ['vllm', 'waiting']],
  ['vllm:num_requests_waiting_by_reason', ['vllm', 'waitingByReason']],
  ['vllm:kv_cache_usage_perc', ['vllm', 'kvShare']],
  ['vllm:num_preemptions_total', ['vllm', 'preemptions']],
  ['vllm:cache_config_info', ['vllm', 'cacheConfig']],
  ['vllm:lora_requests_info', ['vllm', 'adapters']],
  ['sglang:num_running_reqs', ['sglang', 'running']],
  ['sglang:num_queue_reqs', ['sglang', 'waiting']],
  ['sglang:token_usage', ['sglang', 'kvShare']],
  ['sglang:num_retracted_requests_total', ['sglang', 'preemptions']],
  ['llamacpp:requests_processing', ['llama', 'running']],
  ['llamacpp:requests_deferred', ['llama', 'waiting']],
  ['trtllm_num_requests_running', ['trtllm', 'running']],
  ['trtllm_num_requests_waiting', ['trtllm', 'waiting']],
  ['trtllm_kv_cache_utilization', ['trtllm', 'kvShare']],
  ['lmdeploy:num_requests_running', ['lmdeploy', 'running']],
  ['lmdeploy:num_requests_waiting', ['lmdeploy', 'waiting']],
  ['lmdeploy:gpu_cache_usage_perc', ['lmdeploy', 'kvShare']],
  ['tgi_batch_current_size', ['tgi', 'running']],
  ['tgi_queue_size', ['tgi', 'waiting']],
  ['te_queue_size', ['tei', 'waiting']],
  ['berth_engine_requests_processing', ['berth', 'running']],
  ['berth_engine_requests_deferred', ['berth', 'waiting']],
])

const LABELS_AND_VALUE = /^(?:\{(.*)\})?[ \t]+([0-9.eE+-]+)/

/** undefined: these are not the metrics of a known engine. */
export function readEngineMetrics(text: string): EngineMetrics | undefined {
  const reading = new Reading()
  for (let from = 0; from < text.length;) {
    const newline = text.indexOf('\n', from)
    const end = newline === -1 ? text.length : newline
    if (text[from] !== '#') reading.readLine(text.slice(from, end))
    from = end + 1
  }
  return reading.metrics()
}

class Reading {
  #engine: EngineName | undefined
  readonly #sums = new Map<Figure, number>()
  #kvTokens: number | null = null
  #adapters: ReadonlySet<string> | null = null
  #adaptersAt = -Infinity

  readLine(line: string): void {
    const nameEnd = line.search(/[{ \t]/)
    const definition = nameEnd === -1 ? undefined : figures.get(line.slice(0, nameEnd))
    if (definition === undefined) return
    const [engine, figure] = definition
    const [, labels = '', number = ''] = LABELS_AND_VALUE.exec(line.slice(nameEnd)) ?? []
    const value = Number(number)
    if (number === '' || !Number.isFinite(value) || value < 0) return
    this.#take(figure, value, labels)
    if (figure === 'running' || figure === 'waiting') this.#engine = engine
  }

  #take(figure: Figure, value: number, labels: string): void {
    switch (figure) {
      case 'kvShare':
        return void this.#sums.set(figure, Math.max(this.#sums.get(figure) ?? 0, value))
      case 'waitingByReason':
        // Other calls wait for something else than room in the batch, such as a slot for their adapter.
        if (labelOf(labels, 'reason') === 'capacity') this.#add(figure, value)
        return
      case 'cacheConfig':
        this.#kvTokens = (this.#kvTokens ?? 0) + kvTokensOf(labels)
        return
      case 'adapters':
        // The engine keeps old lines. The value of a line is its time.
        if (value < this.#adaptersAt) return
        this.#adaptersAt = value
        this.#adapters = new Set((labelOf(labels, 'running_lora_adapters') ?? '').split(',').filter(Boolean))
        return
      case 'running':
      case 'waiting':
      case 'preemptions':
        this.#add(figure, value)
    }
  }

  #add(figure: Figure, value: number): void {
    this.#sums.set(figure, (this.#sums.get(figure) ?? 0) + value)
  }

  metrics(): EngineMetrics | undefined {
    if (this.#engine === undefined) return undefined
    const sumOf = (figure: Figure): number | null => this.#sums.get(figure) ?? null
    return {
      engine: this.#engine,
      load: {
        running: sumOf('running'),
        waiting: sumOf('waitingByReason') ?? sumOf('waiting') ?? 0,
        kvShare: sumOf('kvShare'),
        preemptions: sumOf('preemptions'),
      },
      kvTokens: this.#kvTokens === 0 ? null : this.#kvTokens,
      adapters: this.#adapters,
    }
  }
}

/** 0: the labels do not say. */
function kvTokensOf(labels: string): number {
  const stated = Number(labelOf(labels, 'kv_cache_size_tokens'))
  const computed = Number(labelOf(labels, 'num_gpu_blocks')) * Number(labelOf(labels, 'block_size'))
  return [stated, computed].find((tokens) => Number.isSafeInteger(tokens) && tokens > 0) ?? 0
}

function labelOf(labels: string, name: string): string | undefined {
  return new RegExp(`(?:^|,)\\s*${name}="((?:[^"\\\\]|\\\\.)*)"`).exec(labels)?.[1]
}
