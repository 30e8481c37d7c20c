/** Starting and stopping the process. */
import fs from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { writeTinyGguf } from '../../../test/sim/tiny-gguf.ts'
import { spawnEngine, startTinyEngine } from '../../../test/lab/tiny-engine.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

test('fails with a clear error on a truncated file', async () => {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), 'berth-llama-'))
  const file = path.join(folder, 'bad.gguf')
  await writeTinyGguf(file)
  await fs.truncate(file, 60_000)
  const engine = await spawnEngine({ folder, file })
  const { event, message } = await engine.settled
  expect(event).toBe('failed')
  expect(message).toContain('bad.gguf cannot be loaded')
  expect(message).toContain('not within the file bounds')
  expect(await engine.ended).toEqual({ code: 1, signal: null })
  await engine.stop()
})

test('fails without options and names them', async () => {
  const engine = await spawnEngine({ sequences: 0 })
  expect(await engine.settled).toEqual({ event: 'failed', message: expect.stringContaining('sequences') })
  await engine.stop()
})

test('uses a private socket, replaces a stale one, and exits at once when stdin closes', async () => {
  const killed = await startTinyEngine()
  expect((await fs.stat(killed.socketPath)).mode & 0o077).toBe(0)
  killed.kill('SIGKILL')
  await killed.ended
  expect((await fs.stat(killed.socketPath)).isSocket()).toBe(true)

  const engine = await startTinyEngine({ folder: killed.folder })
  const busy = engine.open({ n: 100, logit_bias: { 257: -100, 260: -100 }, stream: true })
  await busy.begun
  engine.closeInput()
  await engine.ended
  await expect(fs.stat(engine.socketPath)).rejects.toThrow('ENOENT')
  expect(engine.events.map(({ event }) => event)).not.toContain('failed')
  busy.cut()
  await engine.stop()
})

test('exits on SIGTERM while it loads', async () => {
  const engine = await spawnEngine()
  engine.kill('SIGTERM')
  expect(await engine.ended).toEqual({ code: null, signal: 'SIGTERM' })
  await engine.stop()
})
