/** Engines of text: chats, embeddings and reranking. Flags are those of the version in the catalog. */
import { ENGINE_QUEUE, flagUnlessNull, hubEnv, type EngineRecipe, type MemoryRule } from './recipe-engine-type.ts'

/** The highest rank of an adapter; engines reserve memory for it. */
const ADAPTER_RANK = 64
/** The share of GPU memory for weights and cache. */
const CLAIMED = 0.9

const llm = { of: 'gpu', factor: 1.2, extraGib: 2, usable: CLAIMED } satisfies MemoryRule

export const textEngines = {
  vllm: {
    kinds: ['chat', 'embedding', 'rerank', 'transcription'],
    protocols: { chat: 'chat', embedding: 'chat', rerank: 'chat', transcription: 'chat' },
    port: 8_000,
    healthPath: '/health',
    concurrency: null,
    metrics: {
      running: 'vllm:num_requests_running',
      waiting: 'vllm:num_requests_waiting',
      cacheUsage: 'vllm:kv_cache_usage_perc',
    },
    compilesInto: ['VLLM_CACHE_ROOT', 'FLASHINFER_WORKSPACE_BASE', 'TRITON_CACHE_DIR'],
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
      parsers,
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
        // Otherwise vLLM takes the longest context that fits. With the model's own context it would not start on a
        // smaller card.
        '--max-model-len',
        String(contextTokens ?? 'auto'),
        ...(parsers.tools === undefined ? [] : ['--enable-auto-tool-choice', '--tool-call-parser', parsers.tools]),
        ...flagUnlessNull('--reasoning-parser', parsers.reasoning),
        ...(kind === 'embedding' || kind === 'rerank' ? ['--runner', 'pooling'] : []),
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
    kinds: ['chat', 'embedding', 'rerank'],
    protocols: { chat: 'chat', embedding: 'chat', rerank: 'chat' },
    port: 30_000,
    healthPath: '/health',
    concurrency: null,
    metrics: {
      running: 'sglang:num_running_reqs',
      waiting: 'sglang:num_queue_reqs',
      cacheUsage: 'sglang:token_usage',
    },
    compilesInto: ['TORCHINDUCTOR_CACHE_DIR', 'FLASHINFER_WORKSPACE_BASE', 'TRITON_CACHE_DIR'],
    model: 'weights_or_hub',
    adapters: 'by_path',
    // The engine reads the part after a colon as an adapter, and prefers it to `lora_path`.
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
      parsers,
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
        // Without this limit the engine queues all requests that it cannot batch yet.
        ...flagUnlessNull('--max-queued-requests', statedConcurrency === null ? null : ENGINE_QUEUE),
        '--enable-metrics',
        ...flagUnlessNull('--context-length', contextTokens),
        ...flagUnlessNull('--tool-call-parser', parsers.tools),
        ...flagUnlessNull('--reasoning-parser', parsers.reasoning),
        ...flagUnlessNull('--api-key', apiKey),
        ...(kind === 'chat' ? [] : ['--is-embedding']),
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
    kinds: ['chat', 'embedding', 'rerank'],
    protocols: { chat: 'chat', embedding: 'chat', rerank: 'chat' },
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
        ...(kind === 'embedding' ? ['--embedding'] : kind === 'rerank' ? ['--reranking'] : []),
        ...adapters.flatMap((one) => ['--lora', one.path]),
        // Each request sets the scale of the adapter that it uses.
        ...(adapters.length === 0 ? [] : ['--lora-init-without-apply']),
      ],
      env: apiKey === null ? {} : { LLAMA_API_KEY: apiKey },
    }),
  },
  tei: {
    kinds: ['embedding', 'rerank'],
    protocols: { embedding: 'chat', rerank: 'tei' },
    port: 8_080,
    healthPath: '/health',
    // Together with its queue, this makes the engine's own default of 512.
    concurrency: 504,
    metrics: null,
    model: 'weights_or_hub',
    adapters: 'none',
    memory: { of: 'gpu', factor: 1.2, extraGib: 1, usable: 1 },
    start: ({ name, modelPath, port, concurrency, apiKey, isOffline }) => ({
      command: ['text-embeddings-router'],
      args: [
        '--model-id',
        modelPath ?? '',
        '--served-model-name',
        name,
        '--hostname',
        '0.0.0.0',
        '--port',
        String(port),
        // Requests beyond this limit are answered with 429.
        '--max-concurrent-requests',
        String(concurrency + ENGINE_QUEUE),
      ],
      env: { ...hubEnv(isOffline), ...(apiKey === null ? {} : { API_KEY: apiKey }) },
    }),
  },
  tgi: {
    kinds: ['chat'],
    protocols: { chat: 'chat' },
    port: 8_080,
    healthPath: '/health',
    // Together with its queue, this makes the engine's own default of 128.
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
        // Requests beyond this limit are answered with 429.
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
} as const satisfies Readonly<Record<string, EngineRecipe>>
