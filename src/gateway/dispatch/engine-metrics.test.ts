/** The names in the metrics of engines, as their own code writes them. */
import { expect, test } from 'vitest'
import { factsPages, readFacts } from './engine-facts.ts'
import { readEngineMetrics, type EngineMetrics } from './engine-metrics.ts'

const unknown = { running: null, waiting: 0, kvShare: null, preemptions: null }

const vllm = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a{b} c"} 3.0
vllm:num_requests_running{engine="1",model_name="a"} 4.0
vllm:num_requests_waiting{engine="0",model_name="a"} 2.0
vllm:num_requests_waiting{engine="1",model_name="a"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="a"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="a"} 0.5
vllm:num_preemptions_total{engine="0",model_name="a"} 5.0
vllm:num_preemptions_total{engine="1",model_name="a"} 1.0
vllm:num_preemptions_created{engine="0",model_name="a"} 1.7e+09
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="1000"} 1.0
`

test.each<[string, string, Partial<EngineMetrics['load']> | undefined]>([
  ['vLLM, one line for each rank', vllm, { running: 7, waiting: 11, kvShare: 0.5, preemptions: 6 }],
  [
    'vLLM with reasons, of which only a full batch counts',
    `${vllm}vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 9.0
`,
    { running: 7, waiting: 2, kvShare: 0.5, preemptions: 6 },
  ],
  ['llama.cpp', 'llamacpp:requests_processing 1\nllamacpp:requests_deferred 5\n', { running: 1, waiting: 5 }],
  [
    'SGLang',
    'sglang:num_running_reqs{x="y"} 2.0\nsglang:num_queue_reqs{x="y"} 1.0\nsglang:token_usage{x="y"} 0.75\nsglang:num_retracted_requests_total{x="y"} 3.0',
    { running: 2, waiting: 1, kvShare: 0.75, preemptions: 3 },
  ],
  [
    'TensorRT-LLM',
    'trtllm_num_requests_running{model_name="m"} 4\ntrtllm_num_requests_waiting{model_name="m"} 1\ntrtllm_kv_cache_utilization{model_name="m"} 0.5\n',
    { running: 4, waiting: 1, kvShare: 0.5 },
  ],
  [
    'LMDeploy',
    'lmdeploy:num_requests_running{model_name="m"} 4\nlmdeploy:num_requests_waiting{model_name="m"} 1\nlmdeploy:gpu_cache_usage_perc{model_name="m"} 0.5\n',
    { running: 4, waiting: 1, kvShare: 0.5 },
  ],
  ['TGI', 'tgi_batch_current_size 6\ntgi_queue_size 1e1 1700000000', { running: 6, waiting: 10 }],
  ['TEI, which counts only those that wait', 'te_queue_size 3\n', { waiting: 3 }],
  ['our own', 'berth_engine_requests_processing 1\nberth_engine_requests_deferred 2\n', { running: 1, waiting: 2 }],
  ['something else', 'process_cpu_seconds_total 12.5\n', undefined],
  ['values that are none', 'vllm:num_requests_running NaN\nvllm:num_requests_waiting -1\n', undefined],
  ['an empty page', '', undefined],
])('%s', (_, text, load) => {
  expect(readEngineMetrics(text)?.load).toEqual(load === undefined ? undefined : { ...unknown, ...load })
})

test('the size of the KV cache comes from its blocks, or as stated', () => {
  expect(readEngineMetrics(vllm)?.kvTokens).toBe(32_000)
  const stated = 'vllm:cache_config_info{block_size="16",kv_cache_size_tokens="880000",num_gpu_blocks="None"} 1.0\n'
  expect(readEngineMetrics(`vllm:num_requests_running 0\n${stated}`)?.kvTokens).toBe(880_000)
  expect(readEngineMetrics('vllm:num_requests_running 0\n')?.kvTokens).toBeNull()
})

test('adapters are those of the newest line', () => {
  const lines = `vllm:num_requests_running 0
vllm:lora_requests_info{max_lora="2",running_lora_adapters="old",waiting_lora_adapters=""} 1.0
vllm:lora_requests_info{max_lora="2",running_lora_adapters="a,b",waiting_lora_adapters="c"} 3.0
vllm:lora_requests_info{max_lora="2",running_lora_adapters="older",waiting_lora_adapters=""} 2.0
`
  expect(readEngineMetrics(lines)?.adapters).toEqual(new Set(['a', 'b']))
})

test.each([
  [
    'sglang',
    '/server_info',
    '{"internal_states":[{"effective_max_running_requests_per_dp":100},{"effective_max_running_requests_per_dp":100}]}',
    { capacity: 200, refusesAbove: null },
  ],
  ['llama', '/props', '{"total_slots":4}', { capacity: 4, refusesAbove: null }],
  ['tgi', '/info', '{"max_concurrent_requests":128}', { capacity: null, refusesAbove: 128 }],
  [undefined, '/props', '{"total_slots":"many"}', undefined],
  [undefined, '/info', 'not json', undefined],
] as const)('%s states its limits at %s', (engine, path, body, stated) => {
  const page = factsPages(engine).find((one) => one.path === path)
  if (page === undefined) throw new Error(`no page ${path}`)
  expect(readFacts(page, body)).toEqual(stated)
})
