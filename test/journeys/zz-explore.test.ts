import { test } from 'vitest'
import { describeApi } from '../../src/contract/openapi.ts'
test('x', () => {
  const d = describeApi('all') as any
  for (const [p, ms] of Object.entries<any>(d.paths)) for (const [m, o] of Object.entries<any>(ms)) {
    const b = o.requestBody?.content['application/json'].schema
    if (b) console.log(m, p, JSON.stringify(b))
    if (o.parameters) console.log('   params', JSON.stringify(o.parameters))
  }
  for (const [n, s] of Object.entries<any>(d.components.schemas)) console.log(n, JSON.stringify(s).slice(0, 1800))
})
