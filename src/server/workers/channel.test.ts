/** Connections that are on their way to a process that exits, or whose exit Node does not report. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openChannel, type Line } from './channel.ts'

interface Peer {
  anything(): Promise<void>
}

const ours: Peer = { anything: async () => {} }
let listener: net.Server
const accepted: Socket[] = []

beforeAll(async () => {
  listener = net.createServer((socket) => accepted.push(socket))
  await once(listener.listen(0, '127.0.0.1'), 'listening')
})
afterAll(() => {
  for (const socket of accepted) socket.destroy()
  listener.close()
})

async function connect(): Promise<{ client: Socket; server: Socket }> {
  const client = net.connect((listener.address() as AddressInfo).port, '127.0.0.1')
  await Promise.all([once(client, 'connect'), once(listener, 'connection')])
  const server = accepted.at(-1)
  if (server === undefined) throw new Error('no connection was accepted')
  return { client, server }
}

/** A process that has started, and answers nothing while it is stopped. */
async function stoppedProcess(): Promise<ChildProcess> {
  const program = 'process.on("message", () => {}); process.send("started")'
  const stdio = ['ignore', 'inherit', 'inherit', 'ipc'] as const
  const child = spawn(process.execPath, ['-e', program], { stdio: [...stdio], serialization: 'advanced' })
  onTestFinished(() => void child.kill('SIGKILL'))
  await once(child, 'message')
  child.kill('SIGSTOP')
  return child
}

test('closes the connections that a process has not confirmed when it was killed', async () => {
  const child = await stoppedProcess()
  const channel = openChannel<Peer, Peer>({ line: child, ours, onSocket: () => {} })
  const pairs = [await connect(), await connect(), await connect()]
  const closed = Promise.all(pairs.map(({ client }) => once(client.resume(), 'close')))
  for (const { server } of pairs) channel.pass(server, Buffer.from('GET / HTTP/1.1\r\n\r\n'))
  child.kill('SIGKILL')
  await closed
  await expect(channel.call('anything')).rejects.toThrow('exited')
})

test('notices the exit of a process also when Node does not report it, and ends its calls', async () => {
  const line = { connected: true, send: () => true, on: () => line }
  let isOver = false
  const onEnd = (): void => void (isOver = true)
  const channel = openChannel<Peer, Peer>({ line: line as unknown as Line, ours, onSocket: () => {}, onEnd })
  const answer = channel.call('anything')
  line.connected = false
  await expect(answer).rejects.toThrow('exited')
  expect(isOver).toBe(true)
})
