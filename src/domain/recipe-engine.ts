/** The engines that recipes start, one entry each. Flags are those of the image's version. */
import type { RecipeName } from '../contract/recipe.ts'
import type { ModelKind } from './inference.ts'

/** The model that a replica serves. */
export interface ServedModel {
  /** The name that the engine gets in requests. */
  readonly name: string
  readonly kind: ModelKind
  readonly gpuCount: number
  /** Requests without it are rejected. null: the engine asks for none. */
  readonly apiKey: string | null
}

/** How the gateway talks to a replica. `embedded`: as to an engine beside the server. */
export type ReplicaProtocol = 'chat' | 'images' | 'txt2img' | 'speech' | 'embedded'

export interface EngineMetrics {
  readonly running: string
  readonly waiting: string
  /** Share of the key-value cache in use, 0 to 1. null: not reported. */
  readonly cacheUsage: string | null
}

export interface EngineRecipe {
  readonly kinds: readonly ModelKind[]
  readonly protocols: Partial<Readonly<Record<ModelKind, ReplicaProtocol>>>
  /** null: the order names one. */
  readonly image: { readonly name: string; readonly tag?: string | undefined } | null
  readonly port: number
  readonly healthPath: string
  /** Requests at a time. null: as many as there are; the engine batches what fits. */
  readonly concurrency: number | null
  readonly metrics: EngineMetrics | null
  readonly startSeconds?: number
  /** The possible origins of its model. `any`: the image may contain it. */
  readonly model: 'weights' | 'weights_or_hub' | 'any'
  /** How a request asks for an adapter: as its model, as `lora_path`, or as a scale per adapter. */
  readonly adapters: 'none' | 'by_model' | 'by_path' | 'by_scale'
  /** Its name for the model, where it gives some characters a meaning. */
  readonly nameOf?: (model: string) => string
  readonly memory: MemoryRule
  readonly start: (facts: StartFacts) => StartedEngine
}

/** Bytes = weights × `factor` + `extraGib`, in the memory of the GPUs or of the machine. */
export interface MemoryRule {
  readonly of: 'gpu' | 'machine'
  readonly factor: number
  readonly extraGib: number
  /** Share of the memory that the engine takes. */
  readonly usable: number
}

interface StartFacts extends ServedModel {
  readonly modelPath: string | null
  readonly port: number
  readonly concurrency: number
  /** null: the order names no limit. */
  readonly statedConcurrency: number | null
  readonly contextTokens: number | null
  /** Paths in the container. */
  readonly adapters: ReadonlyArray<{ readonly name: string; readonly path: string }>
  /** The weights are there: the engine must not ask a hub. */
  readonly isOffline: boolean
}

interface StartedEngine {
  readonly command: readonly string[] | null
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** Requests that wait in an engine are not seen by the gateway, so its queue is short. */
const ENGINE_QUEUE = 8
/** The highest rank of an adapter; engines reserve memory for it. */
const ADAPTER_RANK = 64
/** The part of a card for weights and cache. */
const CLAIMED = 0.9

const llm = { of: 'gpu', factor: 1.2, extraGib: 2, usable: CLAIMED } satisfies MemoryRule

const hubOffline = { HF_HUB_OFFLINE: '1', TRANSFORMERS_OFFLINE: '1' }

function hubEnv(isOffline: boolean): Record<string, string> {
  return isOffline ? hubOffline : {}
}

function flagUnlessNull(name: string, value: string | number | null): string[] {
  return value === null ? [] : [name, String(value)]
}

export const engines = {
  vllm: {
    kinds: ['chat', 'embedding'],
    protocols: { chat: 'chat', embedding: 'chat' },
    image: { name: 'vllm/vllm-openai', tag: 'v0.11.0' },
    port: 8_000,
    healthPath: '/health',
    concurrency: null,
    metrics: {
      running: 'vllm:num_requests_running',
      waiting: 'vllm:num_requests_waiting',
      cacheUsage: 'vllm:kv_cache_usage_perc',
    },
    model: 'weights_or_hub',
    adapters: 'by_model',
    memory: llm,
    start: ({
      name,
      modelPath,
      port,
      statedConcurrency,
      contextTokens,
      gpuCount,
      kind,
      adapters,
      apiKey,
      isOffline,
    }) => ({
      command: ['vllm', 'serve'],
      args: [
        modelPath ?? '',
        '--served-model-name',
        name,
        '--host',
        '0.0.0.0',
        '--port',
        String(port),
        '--tensor-parallel-size',
        String(gpuCount),
        '--gpu-memory-utilization',
        String(CLAIMED),
        ...flagUnlessNull('--max-num-seqs', statedConcurrency),
        ...flagUnlessNull('--max-model-len', contextTokens),
        ...(kind === 'embedding' ? ['--runner', 'pooling'] : []),
        ...(adapters.length === 0
          ? []
          : [
              '--enable-lora',
              '--max-loras',
              String(Math.min(adapters.length, ENGINE_QUEUE)),
              '--max-cpu-loras',
              String(adapters.length),
              '--max-lora-rank',
              String(ADAPTER_RANK),
              '--lora-modules',
              ...adapters.map((one) => `${one.name}=${one.path}`),
            ]),
      ],
      env: { ...hubEnv(isOffline), ...(apiKey === null ? {} : { VLLM_API_KEY: apiKey }) },
    }),
  },
  sglang: {
    kinds: ['chat', 'embedding'],
    protocols: { chat: 'chat', embedding: 'chat' },
    image: { name: 'lmsysorg/sglang', tag: 'v0.5.4' },
    port: 30_000,
    healthPath: '/health',
    concurrency: null,
    metrics: {
      running: 'sglang:num_running_reqs',
      waiting: 'sglang:num_queue_reqs',
      cacheUsage: 'sglang:token_usage',
    },
    model: 'weights_or_hub',
    adapters: 'by_path',
    // It takes what follows a colon for an adapter, and prefers that to `lora_path`.
    nameOf: (model) => model.replaceAll(':', '-'),
    memory: llm,
    start: ({
      name,
      modelPath,
      port,
      statedConcurrency,
      contextTokens,
      gpuCount,
      kind,
      adapters,
      apiKey,
      isOffline,
    }) => ({
      command: ['python3', '-m', 'sglang.launch_server'],
      args: [
        '--model-path',
        modelPath ?? '',
        '--served-model-name',
        name,
        '--host',
        '0.0.0.0',
        '--port',
        String(port),
        '--tp-size',
        String(gpuCount),
        ...flagUnlessNull('--max-running-requests', statedConcurrency),
        // Without a limit of its own it queues what it cannot batch yet.
        ...flagUnlessNull('--max-queued-requests', statedConcurrency === null ? null : ENGINE_QUEUE),
        '--enable-metrics',
        ...flagUnlessNull('--context-length', contextTokens),
        ...flagUnlessNull('--api-key', apiKey),
        ...(kind === 'embedding' ? ['--is-embedding'] : []),
        ...(adapters.length === 0
          ? []
          : [
              '--max-loras-per-batch',
              String(Math.min(adapters.length, ENGINE_QUEUE)),
              '--lora-paths',
              ...adapters.map((one) => `${one.name}=${one.path}`),
            ]),
      ],
      env: hubEnv(isOffline),
    }),
  },
  'llama.cpp': {
    kinds: ['chat', 'embedding'],
    protocols: { chat: 'chat', embedding: 'chat' },
    image: { name: 'ghcr.io/ggml-org/llama.cpp', tag: 'server-cuda' },
    port: 8_080,
    healthPath: '/health',
    concurrency: 4,
    metrics: { running: 'llamacpp:requests_processing', waiting: 'llamacpp:requests_deferred', cacheUsage: null },
    model: 'weights',
    adapters: 'by_scale',
    memory: { ...llm, usable: 1 },
    start: ({ name, modelPath, port, concurrency, contextTokens, kind, adapters, apiKey }) => ({
      command: ['/app/llama-server'],
      args: [
        '--model',
        modelPath ?? '',
        '--alias',
        name,
        '--host',
        '0.0.0.0',
        '--port',
        String(port),
        '--parallel',
        String(concurrency),
        // The context of all slots together; 0 stands for the model's own.
        '--ctx-size',
        String((contextTokens ?? 0) * concurrency),
        '--n-gpu-layers',
        '999',
        '--metrics',
        ...(kind === 'embedding' ? ['--embedding'] : []),
        ...adapters.flatMap((one) => ['--lora', one.path]),
        // Each request sets the scale of the adapter that it wants.
        ...(adapters.length === 0 ? [] : ['--lora-init-without-apply']),
      ],
      env: apiKey === null ? {} : { LLAMA_API_KEY: apiKey },
    }),
  },
  tgi: {
    kinds: ['chat'],
    protocols: { chat: 'chat' },
    image: { name: 'ghcr.io/huggingface/text-generation-inference', tag: '3.3.6' },
    port: 8_080,
    healthPath: '/health',
    // With its queue, the engine's own default of 128.
    concurrency: 120,
    metrics: { running: 'tgi_batch_current_size', waiting: 'tgi_queue_size', cacheUsage: null },
    model: 'weights_or_hub',
    adapters: 'by_model',
    memory: llm,
    start: ({ modelPath, port, concurrency, contextTokens, gpuCount, adapters, apiKey, isOffline }) => ({
      command: ['text-generation-launcher'],
      args: [
        '--model-id',
        modelPath ?? '',
        '--hostname',
        '0.0.0.0',
        '--port',
        String(port),
        '--num-shard',
        String(gpuCount),
        // More are answered with 429.
        '--max-concurrent-requests',
        String(concurrency + ENGINE_QUEUE),
        ...flagUnlessNull('--max-total-tokens', contextTokens),
        ...(adapters.length === 0
          ? []
          : ['--lora-adapters', adapters.map((one) => `${one.name}=${one.path}`).join(',')]),
      ],
      env: { ...hubEnv(isOffline), ...(apiKey === null ? {} : { API_KEY: apiKey }) },
    }),
  },
  diffusion: {
    kinds: ['image'],
    protocols: { image: 'images' },
    image: { name: 'lmsysorg/sglang', tag: 'v0.5.6.post2' },
    port: 30_000,
    healthPath: '/health',
    // Images are computed one after another; more at once only take memory.
    concurrency: 1,
    metrics: null,
    model: 'weights_or_hub',
    adapters: 'none',
    memory: { of: 'gpu', factor: 1, extraGib: 0.5, usable: 1 },
    start: ({ modelPath, port, gpuCount, apiKey, isOffline }) => ({
      command: ['sglang', 'serve'],
      args: [
        '--model-path',
        modelPath ?? '',
        '--host',
        '0.0.0.0',
        '--port',
        String(port),
        '--num-gpus',
        String(gpuCount),
        ...flagUnlessNull('--api-key', apiKey),
      ],
      env: hubEnv(isOffline),
    }),
  },
  speech: {
    kinds: ['speech'],
    protocols: { speech: 'speech' },
    image: { name: 'ghcr.io/speaches-ai/speaches', tag: '0.8.3-cuda' },
    port: 8_000,
    healthPath: '/health',
    concurrency: 4,
    metrics: null,
    model: 'weights_or_hub',
    adapters: 'none',
    memory: { of: 'gpu', factor: 3, extraGib: 0.5, usable: 1 },
    start: ({ port, apiKey, isOffline, modelPath }) => ({
      command: null,
      args: [],
      env: {
        ...hubEnv(isOffline),
        UVICORN_HOST: '0.0.0.0',
        UVICORN_PORT: String(port),
        // Never unloaded: a replica that is not needed ends instead.
        TTS_MODEL_TTL: '-1',
        ...(isOffline && modelPath !== null ? { HF_HUB_CACHE: modelPath } : {}),
        ...(!isOffline && modelPath !== null ? { PRELOAD_MODELS: JSON.stringify([modelPath]) } : {}),
        ...(apiKey === null ? {} : { API_KEY: apiKey }),
      },
    }),
  },
  'berth-engine': {
    kinds: ['chat', 'embedding', 'image', 'speech'],
    protocols: { chat: 'embedded', embedding: 'embedded', image: 'embedded', speech: 'embedded' },
    image: { name: 'berth/engine' },
    port: 8_000,
    healthPath: '/health',
    concurrency: 4,
    metrics: {
      running: 'berth_engine_requests_processing',
      waiting: 'berth_engine_requests_deferred',
      cacheUsage: null,
    },
    startSeconds: 300,
    model: 'any',
    adapters: 'none',
    memory: { of: 'machine', factor: 1.2, extraGib: 0.5, usable: 1 },
    start: ({ name, kind, modelPath, port, concurrency, contextTokens, apiKey }) => ({
      command: null,
      args: [
        '--kind',
        kind,
        '--name',
        name,
        '--port',
        String(port),
        '--concurrency',
        String(concurrency),
        '--queue',
        String(ENGINE_QUEUE),
        ...flagUnlessNull('--model', modelPath),
        ...flagUnlessNull('--context', contextTokens),
      ],
      env: apiKey === null ? {} : { ENGINE_API_KEY: apiKey },
    }),
  },
  custom: {
    kinds: ['chat', 'embedding', 'image', 'speech'],
    protocols: { chat: 'chat', embedding: 'chat', image: 'images', speech: 'speech' },
    image: null,
    port: 8_000,
    healthPath: '/health',
    concurrency: null,
    metrics: null,
    model: 'any',
    adapters: 'none',
    memory: { ...llm, usable: 1 },
    start: ({ apiKey }) => ({ command: null, args: [], env: apiKey === null ? {} : { API_KEY: apiKey } }),
  },
} as const satisfies Readonly<Record<RecipeName, EngineRecipe>>
