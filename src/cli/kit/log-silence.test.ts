/** A followed log may be silent for hours. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test, vi } from 'vitest'
import { openLogs, printLines } from '../rental/machine-session.ts'
import type { Session } from '../rental/session.ts'

afterEach(() => {
  vi.useRealTimers()
})

test('a followed log goes on after an hour of silence (issue 31, 16)', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'setInterval', 'setImmediate', 'Date', 'performance'] })
  let answer: http.ServerResponse | undefined
  const server = http.createServer((_, response) => {
    answer = response
    response.write('before\n')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const lines: unknown[] = []
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const screen = { showLine: (line: unknown) => lines.push(line) }
  const session = { client: { url }, key: 'k', screen } as unknown as Session
  try {
    const printed = openLogs(session, { id: 1 }, { follow: true, tail: 1 }).then((log) => printLines(log, session))
    await vi.waitFor(() => expect(lines).toEqual([{ line: 'before' }]))
    await vi.advanceTimersByTimeAsync(3_600_000)
    answer?.end('after\n')
    expect(await printed).toBe(2)
    expect(lines).toEqual([{ line: 'before' }, { line: 'after' }])
  } finally {
    server.close()
  }
})
