/** The archive of a disk between hosts: whole, or an error. */
import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { ArchiveReader, writeArchive, type ArchiveHead } from './disk-archive.ts'

const head: ArchiveHead = {
  image: 'berth-copy:w-1',
  hostKey: 'key',
  bytes: 10,
  layers: ['sha256:a'],
  volumePaths: ['/data'],
}

async function archiveOf(...parts: readonly Buffer[]): Promise<Buffer> {
  const open = parts.map((part) => async () => Readable.from(piecesOf(part, 7_919), { objectMode: false }))
  const chunks: Buffer[] = []
  for await (const chunk of writeArchive(Promise.resolve({ head, parts: open }))) chunks.push(chunk)
  return Buffer.concat(chunks)
}

function piecesOf(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) => bytes.subarray(n * size, (n + 1) * size))
}

async function readAll(archive: Buffer, pieceBytes: number): Promise<Buffer[]> {
  const reader = new ArchiveReader(Readable.from(piecesOf(archive, pieceBytes), { objectMode: false }))
  expect(await reader.head()).toEqual(head)
  const parts: Buffer[] = []
  for (let n = 0; n < 2; n += 1) {
    const chunks: Buffer[] = []
    for await (const chunk of reader.part()) chunks.push(chunk)
    parts.push(Buffer.concat(chunks))
  }
  await reader.verify()
  return parts
}

const image = randomBytes(100_000)
const volume = randomBytes(10)

test.each([1, 3, 1_000, 1_000_000])('arrives as it was sent, in pieces of %i bytes', async (pieceBytes) => {
  expect(await readAll(await archiveOf(image, volume), pieceBytes)).toEqual([image, volume])
  expect(await readAll(await archiveOf(image, Buffer.alloc(0)), pieceBytes)).toEqual([image, Buffer.alloc(0)])
})

test('an archive that is cut off anywhere, or changed anywhere, is an error (issue 31, 16)', async () => {
  const archive = await archiveOf(image.subarray(0, 300), volume)
  for (let length = 0; length < archive.length; length += 1)
    await expect(readAll(archive.subarray(0, length), 64)).rejects.toThrow('stopped sending the disk')
  for (let at = 0; at < archive.length; at += 1) {
    const changed = Buffer.from(archive)
    changed[at] = (changed[at] ?? 0) ^ 1
    await expect(readAll(changed, 64)).rejects.toBeInstanceOf(Error)
  }
})

test('a part that fails to open ends the archive with its error', async () => {
  const parts = [() => Promise.reject(new Error('the engine is gone'))]
  const read = async (): Promise<void> => {
    for await (const _ of writeArchive(Promise.resolve({ head, parts })));
  }
  await expect(read()).rejects.toThrow('the engine is gone')
})
