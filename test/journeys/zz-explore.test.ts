import { test } from 'vitest'
import { testServer } from '../harness/server.ts'
test('explore', async () => {
  const t0 = performance.now()
  const s = await testServer({ runLoops: false })
  console.log('start', performance.now() - t0)
  const a = await s.account({ usd: '100' })
  const show = async (...args: Parameters<typeof a.call>) => { const r = await a.call(...args); console.log(args[0], args[1], r.status, JSON.stringify(r.body).slice(0, 600)); return r }
  await show('POST', '/v2/alpha/on-demand/virtual-machine-rentals', { gpuCount: 1, region: 'mock-region' })
  await show('POST', '/v2/alpha/on-demand/virtual-machine-rentals', '['.repeat(500_000))
  await show('POST', '/v2/alpha/on-demand/virtual-machine-rentals', '['.repeat(100_000) + ']'.repeat(100_000))
  await show('POST', '/v1/chat/completions', '{"model":"a","messages":[{"role":"user","content":"x"}],"x":' + '['.repeat(100_000) + ']'.repeat(100_000) + '}')
  await show('GET', '/v2/webhooks/%zz/deliveries')
  await show('GET', '/v2/webhooks/' + 'a'.repeat(300) + '/deliveries')
  await show('GET', '/v2/alpha/on-demand/rentals/abc')
  await show('POST', '/v1/chat/completions', { model: 'a', messages: [{ content: 'x' }] })
  await show('POST', '/v1/marketplace/instances/create', { cluster_name: 'a', node_name: 'b' })
  await show('POST', '/v1/marketplace/instances/create', { cluster_name: 'mock-iad', node_name: 'mock-iad-h100-01', gpu_count: '1' })
  await show('GET', '/v2/alpha/on-demand/rentals/2')
  await show('GET', '/v2/nothing')
  await show('POST', '/v1/marketplace', '{"filters":{"__proto__":{}}}')
  await s.close()
})
