/** Invalid headers. */
import fs from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { writeTinyGguf } from '../../../test/sim/tiny-gguf.ts'
import { checkGgufHeader } from './gguf-header.ts'

let folder: string
let file: string
let tiny: Buffer
beforeAll(async () => {
  folder = await fs.mkdtemp(path.join(os.tmpdir(), 'berth-header-'))
  file = path.join(folder, 'x.gguf')
  await writeTinyGguf(file)
  tiny = await fs.readFile(file)
})
afterAll(() => fs.rm(folder, { recursive: true, force: true }))

async function check(bytes: Buffer): Promise<void> {
  await fs.writeFile(file, bytes)
  await checkGgufHeader(file)
}

test('accepts a valid header', async () => {
  await expect(check(tiny)).resolves.toBeUndefined()
})

test.each<[string, (header: Buffer) => Buffer, string]>([
  ['other first bytes', () => Buffer.from('PK and then what is no model at all'), 'not a GGUF file'],
  ['too few bytes', (header) => header.subarray(0, 10), 'not a GGUF file'],
  ['text in place of numbers', () => Buffer.from('GGUF and then nothing that could be read'), 'GGUF version'],
  ['more entries than bytes', (header) => header.fill(0x7f, 16, 24), 'more data than the file has'],
])('rejects %s', async (_, spoil, why) => {
  await expect(check(spoil(Buffer.from(tiny)))).rejects.toThrow(why)
})

test('names a missing file', async () => {
  await expect(checkGgufHeader(path.join(folder, 'none.gguf'))).rejects.toThrow('none.gguf')
})
