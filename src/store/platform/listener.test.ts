/** Notifications are not trusted while the network may be dropping them. */
import { mkdtemp, rm } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startIdentityTest, type IdentityTest } from '../../../test/harness/identity.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { Notifications } from './listener.ts'

let fixture: IdentityTest
beforeAll(async () => {
  fixture = await startIdentityTest()
})
afterAll(() => fixture.close())

/** A proxy between a client and PostgreSQL that can go silent without closing connections. */
async function startRelay(url: string): Promise<{ url: string; silence(on: boolean): void; close(): Promise<void> }> {
  const through = new URL(url)
  const folder = await mkdtemp(path.join(os.tmpdir(), 'relay-'))
  const sockets = new Set<net.Socket>()
  const socketName = '.s.PGSQL.5432'
  const behind = path.join(through.searchParams.get('host') ?? '', socketName)
  const server = net.createServer((client) => {
    const upstream = net.connect(behind)
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      from.on('data', (bytes) => to.write(bytes))
      from.on('error', () => {})
      from.on('close', () => to.destroy())
    }
  })
  await new Promise<void>((resolve) => server.listen(path.join(folder, socketName), resolve))
  through.searchParams.set('host', folder)
  return {
    url: through.toString(),
    silence: (on) => {
      for (const socket of sockets)
        if (on) socket.pause()
        else socket.resume()
    },
    close: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function startListening(deadMs?: number) {
  const relay = await startRelay(fixture.url)
  const heard: string[] = []
  let losses = 0
  let resumptions = 0
  const notifications = new Notifications({
    url: relay.url,
    log: { warn: () => {} },
    ...(deadMs === undefined ? {} : { deadMs }),
  })
  const listener = notifications.listen({
    channel: 'berth_test',
    onNotification: (payload) => heard.push(payload),
    onGap: () => (losses += 1),
    onResume: () => (resumptions += 1),
  })
  await waitFor('it to listen', () => listener.isTrusted())
  const close = async (): Promise<void> => {
    await notifications.close()
    await relay.close()
  }
  return { notifications, listener, relay, heard, losses: () => losses, resumptions: () => resumptions, close }
}
const notify = (payload: string) => fixture.database.pool.query(`select pg_notify('berth_test', $1)`, [payload])

describe('the notification connection', () => {
  test('is not trusted after a second of silence, and delivers missed notifications before it is trusted again', async () => {
    // It is not replaced, however slow this machine is.
    const { listener, relay, heard, losses, close } = await startListening(60_000)
    await notify('one')
    await waitFor('the first to be received', () => heard.length > 0)
    relay.silence(true)
    await notify('two')
    await waitFor('the connection to lose trust', () => !listener.isTrusted())
    expect(heard).toEqual(['one'])
    relay.silence(false)
    await waitFor('it to be trusted again', () => listener.isTrusted())
    expect(heard).toEqual(['one', 'two'])
    expect(losses()).toBe(0)
    await close()
  })

  test('is replaced when it stays silent', async () => {
    const { listener, relay, losses, resumptions, close } = await startListening()
    relay.silence(true)
    await waitFor('it to be abandoned', () => losses() > 0)
    await waitFor('another one', () => listener.isTrusted())
    expect([losses(), resumptions()]).toEqual([1, 1])
    await close()
  })

  test('is one for all channels, each trusted once it is heard', async () => {
    const { notifications, listener, heard, close } = await startListening()
    const others: string[] = []
    const other = notifications.listen({
      channel: 'berth_other',
      onNotification: (payload) => others.push(payload),
      onGap: () => {},
    })
    expect([listener.isTrusted(), other.isTrusted()]).toEqual([true, false])
    await waitFor('the other to be heard', () => other.isTrusted())
    await fixture.database.pool.query(`select pg_notify('berth_other', 'one'), pg_notify('berth_test', 'two')`)
    await waitFor('both notifications', () => heard.length + others.length === 2)
    expect([heard, others]).toEqual([['two'], ['one']])
    await close()
  })
})
