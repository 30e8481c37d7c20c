import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { signalWithin } from './signal-within.ts'

const { signal } = new AbortController()

test('a time limit survives the collection of garbage (issue 31, 8: S-3)', () => {
  const module = fileURLToPath(new URL('signal-within.ts', import.meta.url))
  const script = `
    import { signalWithin } from ${JSON.stringify(module)}
    const { signal } = new AbortController()
    let ended = 0
    const begin = () => signalWithin(signal, 200).addEventListener('abort', () => (ended += 1))
    for (let n = 0; n < 50; n += 1) begin()
    globalThis.gc()
    setTimeout(() => globalThis.gc(), 50)
    setTimeout(() => process.stdout.write(String(ended)), 2_000)`
  const args = ['--expose-gc', '--import', 'tsx', '--input-type=module', '--eval', script]
  expect(spawnSync(process.execPath, args, { encoding: 'utf8' })).toMatchObject({ stdout: '50' })
})

test('ends with the signal that it is made of, and says that time is up otherwise', async () => {
  const outer = new AbortController()
  const inner = signalWithin(outer.signal, 60_000)
  outer.abort(new Error('stop'))
  expect(inner.reason).toEqual(new Error('stop'))
  const limited = signalWithin(signal, 1)
  await new Promise((resolve) => limited.addEventListener('abort', resolve))
  expect(limited.reason).toMatchObject({ name: 'TimeoutError' })
})
