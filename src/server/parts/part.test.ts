/** The order in which parts open and close. */
import { expect, test } from 'vitest'
import { openParts, type Part } from './part.ts'

function recordParts() {
  const steps: string[] = []
  const open = async (name: string, more: Partial<Part> = {}): Promise<Part & { name: string }> => {
    steps.push(`open ${name}`)
    return { name, close: () => steps.push(`close ${name}`), ...more }
  }
  return { steps, open }
}

test('parts close in the reverse order of their opening, and once', async () => {
  const { steps, open } = recordParts()
  const whole = await openParts(async (parts) => {
    const first = await parts.add(open('first'))
    const second = await parts.add(openParts(async (inner) => ({ inside: await inner.add(open('inner')) })))
    await parts.add(open('last'))
    return { names: [first.name, second.inside.name] }
  })
  expect(whole.names).toEqual(['first', 'inner'])
  await whole.close()
  await whole.close()
  expect(steps).toEqual(['open first', 'open inner', 'open last', 'close last', 'close inner', 'close first'])
})

test('a part that fails to open closes those before it, and its own error is thrown', async () => {
  const { steps, open } = recordParts()
  const failure = new Error('the port is in use')
  const fail = () => {
    throw new Error('cannot close')
  }
  const opening = openParts(async (parts) => {
    await parts.add(open('first'))
    await parts.add(open('second', { close: fail }))
    await parts.add(
      openParts(async (inner) => {
        await inner.add(open('inner'))
        throw failure
      }),
    )
    await parts.add(open('never'))
    return {}
  })
  await expect(opening).rejects.toBe(failure)
  expect(failure.cause).toEqual(new Error('cannot close'))
  expect(steps).toEqual(['open first', 'open second', 'open inner', 'close inner', 'close first'])
})

test('a part that fails to close keeps no other part open', async () => {
  const { steps, open } = recordParts()
  const failure = new Error('cannot close')
  const whole = await openParts(async (parts) => {
    await parts.add(open('first'))
    await parts.add(open('second', { close: () => Promise.reject(failure) }))
    return {}
  })
  await expect(whole.close()).rejects.toBe(failure)
  expect(steps).toEqual(['open first', 'open second', 'close first'])
})

test('loops and checks are those of all open parts, in their order', async () => {
  const { open } = recordParts()
  const loop = (name: string) => ({ name, everyMs: 1_000, run: async () => false })
  const whole = await openParts(async (parts) => {
    await parts.add(open('first', { loops: [loop('a')], checks: { database: async () => 'ok' } }))
    await parts.add(open('second', { loops: [loop('b'), loop('c')], checks: { journal: async () => 'full' } }))
    return { loops: parts.loops, checks: parts.checks }
  })
  expect(whole.loops.map(({ name }) => name)).toEqual(['a', 'b', 'c'])
  expect(Object.keys(whole.checks)).toEqual(['database', 'journal'])
  expect(await whole.checks['journal']?.()).toBe('full')
})
