import { expect, test } from 'vitest'
import { parseLoad } from './probe-load.ts'

test.each([
  [
    'vLLM, one line for each rank',
    `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a{b} c"} 3.0
vllm:num_requests_running{engine="1",model_name="a"} 4.0
vllm:num_requests_waiting{engine="0",model_name="a"} 2.0
vllm:num_requests_waiting{engine="1",model_name="a"} 0.0
vllm:num_requests_waiting_by_reason{reason="capacity"} 9.0
`,
    { running: 7, waiting: 2 },
  ],
  ['llama.cpp', 'llamacpp:requests_processing 1\nllamacpp:requests_deferred 5\n', { running: 1, waiting: 5 }],
  ['SGLang', 'sglang:num_running_reqs{x="y"} 2.0\nsglang:num_queue_reqs{x="y"} 1.0', { running: 2, waiting: 1 }],
  ['TGI', 'tgi_batch_current_size 6\ntgi_queue_size 1e1 1700000000', { running: 6, waiting: 10 }],
  ['our own', 'berth_engine_requests_processing 1\nberth_engine_requests_deferred 2\n', { running: 1, waiting: 2 }],
  ['something else', 'process_cpu_seconds_total 12.5\n', undefined],
  ['values that are none', 'vllm:num_requests_running NaN\nvllm:num_requests_waiting -1\n', undefined],
  ['an empty page', '', undefined],
])('%s', (_, text, load) => {
  expect(parseLoad(text)).toEqual(load)
})
