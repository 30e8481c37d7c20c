import os from 'node:os'
import path from 'node:path'
import { expect, inject, test } from 'vitest'
import { pictogramFolder } from '../../../test/harness/pictogram.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { PainterProcess } from './painter-process.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

const IDLE_MS = 20
/** Loading twice on a busy machine. */
const LOADING_MS = 150_000

test(
  'starts on demand, stops when idle, and fails only one request when it crashes',
  async () => {
    const entry = path.join(path.dirname(inject('serverBundle')), 'image-engine.mjs')
    const start = { folder: pictogramFolder, threads: os.availableParallelism() }
    const painter = new PainterProcess(entry, start, IDLE_MS)
    expect(painter.pid).toBeUndefined()

    const encoded = await painter.encodePrompt('a red apple')
    expect(encoded.states.length).toBe(32 * 384)
    // Three words and the start and end tokens.
    expect(encoded.mask).toEqual(Float32Array.from({ length: 32 }, (_, i) => (i < 5 ? 1 : 0)))
    expect(encoded.states.slice(5 * 384).every((value) => value === 0)).toBe(true)
    expect(encoded.readPart).toBeUndefined()
    const pid = painter.pid ?? NaN
    await waitFor('the painter to stop', () => painter.pid === undefined)
    await waitFor('its end', () => !isThere(pid))

    const broken = painter.encodePrompt('a red apple')
    process.kill(painter.pid ?? NaN, 'SIGKILL')
    await expect(broken).rejects.toThrow('exited with SIGKILL')
    expect(painter.pid).toBeUndefined()

    expect(await painter.encodePrompt('a red apple')).toEqual(encoded)
    await waitFor('the painter to stop', () => painter.pid === undefined)
  },
  LOADING_MS,
)

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
